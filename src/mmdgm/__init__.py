"""Max-margin deep generative models (Li, Zhu, Shi and Zhang, NIPS 2015)."""

__version__ = "0.1.0"
