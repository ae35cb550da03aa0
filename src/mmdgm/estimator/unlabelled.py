"""MaxMarginDGM: the generative half alone, an imputer and a transformer that needs no labels."""

from typing import Any, Self

import numpy as np

from mmdgm.data.dataset import UNKNOWN
from mmdgm.estimator.generative import DeepGenerative
from mmdgm.estimator.plan import Settings
from mmdgm.estimator.rows import Columns


class MaxMarginDGM(DeepGenerative):
    """A deep generative model as a scikit-learn imputer and transformer: it learns p(x) of rows with holes."""

    def __init__(
        self,
        latent_size: int | None = None,
        *,
        hidden_layer_sizes: tuple[int, ...] = (128, 128),
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        dropout: float = 0.0,
        holes: float | None = 0.8,
        weight_decay: float = 0.05,
        columns: Columns = None,
        transform_as: str = "imputed",
        validation_fraction: float = 0.1,
        early_stopping: bool = False,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        random_state: Any = None,
        threads: int | None = None,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.latent_size = latent_size
        self.hidden_layer_sizes = hidden_layer_sizes
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.holes = holes
        self.weight_decay = weight_decay
        self.columns = columns
        self.transform_as = transform_as
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.random_state = random_state
        self.threads = threads
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002 - as in scikit-learn
        """Learn from rows X, which may have holes (NaN). A row of weight 2 counts as two equal rows."""
        self._validate_params()
        self._fit(X, _no_labels, sample_weight, partial=False)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002 - as above
        """Learn from more rows, each seen once. The rows of the first call set the scales."""
        self._validate_params()
        self._fit(X, _no_labels, sample_weight, partial=True)
        return self

    def _settings(self) -> Settings:
        return Settings(
            C=0.0,
            margin=1.0,
            adversary=0.0,
            latent_size=self.latent_size,
            hidden=tuple(int(size) for size in self.hidden_layer_sizes),
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            dropout=float(self.dropout),
            weight_decay=float(self.weight_decay),
            holes=self.holes,
        )


def _no_labels(X: Any) -> tuple[Any, tuple[str, ...]]:
    return np.full(len(X), UNKNOWN, dtype=np.int64), ()
