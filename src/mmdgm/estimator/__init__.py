"""The scikit-learn face of the library. It has no mathematics of its own: it asks the parts of the library for theirs.

rows.py          what users have (arrays, images, tables) as rows of the library, and back
labels.py        classes, and which rows have none
plan.py          a recipe and a runtime that suit the rows
learning.py      training, and the temperature of the probabilities from rows held out
generative.py    what both estimators can do
classifier.py    MaxMarginDGMClassifier
unlabelled.py    MaxMarginDGM
storing.py       save and load
documentation.py where the documentation is on the web

`guide.md` beside these says what every parameter means.
"""

from mmdgm.estimator.classifier import MaxMarginDGMClassifier
from mmdgm.estimator.unlabelled import MaxMarginDGM

__all__ = ["MaxMarginDGM", "MaxMarginDGMClassifier"]
