"""MaxMarginDGMClassifier: classes by the largest margin, from rows with holes, some of them without a label."""

import numbers
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from mmdgm.calibration import probabilities
from mmdgm.data.dataset import Labels
from mmdgm.errors import unknown
from mmdgm.estimator.generative import DeepGenerative
from mmdgm.estimator.labels import AUTO, checked, encoded, need_two
from mmdgm.estimator.learning import codes, using_threads
from mmdgm.estimator.plan import Settings
from mmdgm.estimator.rows import Columns
from mmdgm.evaluation import decision_values
from mmdgm.sampling import sample_of_classes


class MaxMarginDGMClassifier(ClassifierMixin, DeepGenerative):  # type: ignore[misc]
    """A max-margin deep generative model as a scikit-learn classifier, transformer and imputer."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DeepGenerative._parameter_constraints,
        "C": [Interval(numbers.Real, 0, None, closed="neither")],
        "margin": [Interval(numbers.Real, 0, None, closed="neither")],
        "adversary": [Interval(numbers.Real, 0, None, closed="left")],
        "unlabelled": "no_validation",
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        C: float = 30.0,
        *,
        margin: float = 3.0,
        adversary: float = 0.0,
        latent_size: int | None = None,
        hidden_layer_sizes: tuple[int, ...] = (128, 128),
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        dropout: float = 0.1,
        holes: float | None = None,
        weight_decay: float = 1.0,
        columns: Columns = None,
        unlabelled: Any = AUTO,
        class_weight: Any = None,
        transform_as: str = "features",
        validation_fraction: float = 0.1,
        early_stopping: bool = False,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        random_state: Any = None,
        threads: int | None = None,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.margin = margin
        self.adversary = adversary
        self.latent_size = latent_size
        self.hidden_layer_sizes = hidden_layer_sizes
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.holes = holes
        self.weight_decay = weight_decay
        self.columns = columns
        self.unlabelled = unlabelled
        self.class_weight = class_weight
        self.transform_as = transform_as
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.random_state = random_state
        self.threads = threads
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X, which may have holes (NaN), and labels y, `unlabelled` where there is none.

        A row of weight 2 counts as two equal rows, one of weight 0 as none.
        """
        self._validate_params()
        keeps_classes = self.warm_start and hasattr(self, "classes_")
        self._fit(X, lambda rows: self._coded(rows, y, sample_weight, keeps_classes), sample_weight, partial=False)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows, each seen once. The first call names all `classes`, and its rows set the scales."""
        self._validate_params()
        if not hasattr(self, "classes_"):
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self.classes_ = np.unique(classes)
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(
                f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {self.classes_!r}"
            )
        self._fit(X, lambda rows: self._coded(rows, y, sample_weight, keeps_classes=True), sample_weight, partial=True)
        return self

    def _coded(self, X: Any, y: Any, sample_weight: Any, keeps_classes: bool) -> tuple[Labels, tuple[str, ...]]:
        """The labels of X as codes; what the classes are, and what each of them counts."""
        labels, known = checked(y, X, self.unlabelled, self.classes_ if keeps_classes else None)
        counted = known if sample_weight is None else known & (np.asarray(sample_weight, dtype=float) > 0)
        if not keeps_classes:
            classes = np.unique(labels[counted])
            if len(classes):
                need_two(classes)
            self.classes_ = classes
        self._class_weights = self._weights_of_classes(labels[known])
        return encoded(labels, counted, self.classes_), tuple(map(str, self.classes_.tolist()))

    def _weights_of_classes(self, labels: NDArray[Any]) -> tuple[float, ...]:
        if self.class_weight is None:
            return ()
        found = compute_class_weight(self.class_weight, classes=self.classes_, y=labels)
        return tuple(float(weight) for weight in found)

    def _settings(self) -> Settings:
        return Settings(
            C=float(self.C),
            margin=float(self.margin),
            adversary=float(self.adversary),
            latent_size=self.latent_size,
            hidden=tuple(int(size) for size in self.hidden_layer_sizes),
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            dropout=float(self.dropout),
            weight_decay=float(self.weight_decay),
            holes=self.holes,
            class_weights=self._class_weights,
        )

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """F(y; x) of every row and class."""
        _, _, batch = self._batch(X)
        with using_threads(self.threads), torch.no_grad():
            found: NDArray[np.float64] = decision_values(self._learned.model, batch).double().cpu().numpy()
        return found

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """F(y; x) of every class; for two classes, by how much the second one scores higher."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the highest score."""
        best = self._scores(X).argmax(axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities: scores divided by one temperature, which was found on rows held out from training."""
        return probabilities(self._scores(X), self.temperature_)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @property
    def temperature_(self) -> float:
        """What scores are divided by before they become probabilities."""
        check_is_fitted(self)
        return self._learned.temperature

    def sample(self, n_samples: int = 1, y: Any = None) -> Any:
        """New rows; of one class, or of a class for each row, if y says so (see `mmdgm.sampling.class_latents`)."""
        if y is None:
            return super().sample(n_samples)
        check_is_fitted(self)
        wished = np.broadcast_to(np.asarray(y), n_samples)
        for label in np.unique(wished):
            if label not in self.classes_:
                raise unknown("class", str(label), map(str, self.classes_.tolist()))
        model = self._learned.model
        which = codes(np.searchsorted(self.classes_, wished), model.classifier.linear.weight.device)
        drawn = sample_of_classes(model, which, self._learned.class_latents, self._drawing_seed())
        return self._reader.write(drawn.reshape(n_samples, -1))
