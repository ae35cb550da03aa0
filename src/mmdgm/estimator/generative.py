"""What both estimators can do: learn from rows with holes, fill them in, embed, sample, score, and be saved."""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from mmdgm.data.batches import Batch
from mmdgm.data.dataset import UNKNOWN, Dataset, Labels
from mmdgm.data.splits import Splits
from mmdgm.data.weights import at_least_once, merged
from mmdgm.embedding import embed
from mmdgm.estimator.documentation import address
from mmdgm.estimator.learning import How, Learned, batch_for, learn, using_threads
from mmdgm.estimator.plan import Settings, recipe_for, runtime_for
from mmdgm.estimator.rows import is_table, learn_reader
from mmdgm.evaluation import importance_weighted
from mmdgm.filling import fill_rows
from mmdgm.imputation import Imputer
from mmdgm.novelty import Regret, likelihood_regret, terms
from mmdgm.recipes import Recipe
from mmdgm.runtime import generator
from mmdgm.sampling import reconstruct, sample
from mmdgm.training import Progress, operations

_LIKELIHOOD_SAMPLES = 50
_FILLING_DRAWS = 50
_MOST_SEED = 2**31 - 1

_positive = Interval(numbers.Real, 0, None, closed="neither")
_not_negative = Interval(numbers.Real, 0, None, closed="left")
_share = Interval(numbers.Real, 0, 1, closed="left")
_count = Interval(numbers.Integral, 1, None, closed="left")


class DeepGenerative(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """The part of an estimator that needs no labels; `MaxMarginDGM` and `MaxMarginDGMClassifier` are final."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "latent_size": [_count, None],
        "hidden_layer_sizes": ["array-like"],
        "epochs": [_count, None],
        "batch_size": [_count, None],
        "learning_rate": [_positive, None],
        "dropout": [_share],
        "holes": [Interval(numbers.Real, 0, 1, closed="both"), None],
        "weight_decay": [_not_negative],
        "columns": [dict, "array-like", None],
        "transform_as": [StrOptions({"features", "latents", "imputed"})],
        "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
        "early_stopping": ["boolean"],
        "n_iter_no_change": [_count],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "threads": [_count, None],
        "device": [str],
        "verbose": ["verbose"],
    }
    _doc_link_module = "mmdgm"

    @property
    def _doc_link_template(self) -> str:
        return address()

    @abstractmethod
    def _settings(self) -> Settings:
        """The parameters as the plan of a training wants them."""

    # learning

    def _fit(
        self, X: Any, code: Callable[[Any], tuple[Labels, tuple[str, ...]]], sample_weight: Any, partial: bool
    ) -> None:
        """Learn from rows. `code` gives the labels of the checked rows as codes, and the names of the classes."""
        goes_on = hasattr(self, "_learned") and (partial or self.warm_start)
        X = self._checked(X, reset=not goes_on)
        weights = np.ones(len(X))
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        y, classes = code(X)
        if not goes_on:
            self._seed = int(check_random_state(self.random_state).randint(_MOST_SEED))
            self._calls = 0
            self._reader = learn_reader(X, self.columns, weights, self._names(X))
        self._classes_as_text = classes
        with ExitStack() as stack:
            stack.enter_context(using_threads(self.threads))
            rows = merged(replace(self._dataset(X, y), weights=at_least_once(weights)))
            recipe = self._recipe(rows, goes_on, partial)
            how = self._how(recipe, rows, partial, stack)
            self._learned: Learned = learn(rows, how, self._learned if goes_on else None)
        self._calls += 1
        self.n_iter_ = self._learned.epochs
        if not (partial or self.warm_start):
            self._learned.state = self._learned.trial = None

    def _recipe(self, rows: Dataset, goes_on: bool, partial: bool) -> Recipe:
        """For the rows; what the first rows decided stays when it goes on, and what is new of a stream is seen once."""
        recipe = recipe_for(self._settings(), rows)
        if goes_on:
            first = self._learned.model.recipe
            holes = first.holes if self.holes is None else recipe.holes
            recipe = replace(recipe, adversary=first.adversary, holes=holes)
        if partial:
            recipe = replace(recipe, epochs=1, schedule="constant", warmup_share=0.0, ema=0.0)
        return recipe

    def _how(self, recipe: Recipe, rows: Dataset, partial: bool, stack: ExitStack) -> How:
        def say_nothing(_: Progress) -> None: ...

        show: Callable[[Progress], None] = say_nothing
        if self.verbose:
            from mmdgm.progress import ProgressBar

            show = stack.enter_context(ProgressBar(type(self).__name__))
        empty = rows.take(np.arange(0))
        return How(
            recipe=recipe,
            runtime=runtime_for(self.device, operations(recipe, Splits(rows, empty, empty))),
            seed=self._seed + (self._calls if partial else 0),
            held_share=self.validation_fraction,
            early_stopping=self.early_stopping and not partial,
            patience=self.n_iter_no_change,
            on_progress=show,
        )

    def _names(self, X: Any) -> list[Any]:
        if is_table(X):
            return list(X.columns)
        return [f"x{i}" for i in range(X.shape[1])]

    # reading rows

    def _checked(self, X: Any, reset: bool) -> Any:
        """X as scikit-learn checks it: a table or an array of numbers in which NaN is allowed."""
        if is_table(X):
            validate_data(self, X, skip_check_array=True, reset=reset)
            if not len(X) or not X.shape[1]:
                kind = "sample(s)" if not len(X) else "feature(s)"
                raise ValueError(f"Found array with 0 {kind} (shape={X.shape}) while a minimum of 1 is required.")
            return X
        X = X if hasattr(X, "dtype") else np.asarray(X)
        loose = self.columns is not None and X.dtype == object
        keeps = [np.uint8, np.float64] if X.ndim > 2 else np.float64
        return validate_data(
            self,
            X,
            dtype=None if loose else keeps,
            ensure_all_finite=not loose and "allow-nan",
            allow_nd=True,
            reset=reset,
        )

    def _dataset(self, X: Any, y: Labels | None = None) -> Dataset:
        """Checked rows as the library has them."""
        y = np.full(len(X), UNKNOWN, dtype=np.int64) if y is None else y
        return Dataset("rows", self._reader.read(X), y, self._classes_as_text, self._reader.schema)

    def _batch(self, X: Any) -> tuple[Any, Dataset, Batch]:
        """New rows, checked: as they came, as the library has them, and as tensors."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        rows = self._dataset(X)
        return X, rows, batch_for(self._learned.model, rows)

    # using what was learned

    def transform(self, X: Any) -> Any:
        """Rows as features of the classifier, means of z, or with their holes filled: as `transform_as` says."""
        if self.transform_as == "imputed":
            return self._only_kept(self.impute(X))
        _, _, batch = self._batch(X)
        with using_threads(self.threads):
            found = embed(self._learned.model, batch, self.transform_as)
        return found.astype(np.float64)

    def _only_kept(self, filled: Any) -> Any:
        """Without the columns that have no value to learn from, as scikit-learn's imputers do it."""
        if self._reader.is_image or len(self._reader.kept) == self._reader.width:
            return filled
        kept = list(self._reader.kept)
        return filled.iloc[:, kept] if is_table(filled) else filled[:, kept]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns that `transform` returns."""
        check_is_fitted(self)
        if self.transform_as == "imputed":
            names: NDArray[np.object_] = _check_feature_names_in(self, input_features)
            return names if self._reader.is_image else names[list(self._reader.kept)]
        model = self._learned.model
        count = model.recipe.latent_size if self.transform_as == "latents" else model.classifier.linear.in_features
        return np.array([f"{type(self).__name__.lower()}{i}" for i in range(count)], dtype=object)

    def impute(self, X: Any, return_spread: bool = False) -> Any:
        """X with its holes filled by their expectation, what is observed as it was; and how unsure each value is.

        A filled value is the mean of p(x | z) over draws of z from q(z | x): the same for the same row, whatever rows
        are beside it. The spread is a standard deviation in the column's units, for a category the probability of
        another one.
        """
        X, rows, batch = self._batch(X)
        how = Imputer("direct", steps=_FILLING_DRAWS, burn_in=0, chains=1, common=True)
        with using_threads(self.threads):
            found = fill_rows(self._learned.model, _floating(rows.x), batch, how, self._seed, None, lambda _d, _o: None)
        filled = self._reader.write(found.x, X)
        if not return_spread:
            return filled
        spread = np.zeros((len(rows), self._reader.width))
        spread[:, list(self._reader.kept) or slice(None)] = found.spread * (self._reader.high - self._reader.low)
        return filled, spread.reshape(X.shape)

    def sample(self, n_samples: int = 1) -> Any:
        """New rows from p(z) p(x | z): the mean of each p(x | z), in the units of the training rows.

        Which rows is up to `random_state`: an integer gives the same ones at every call.
        """
        check_is_fitted(self)
        drawn = sample(self._learned.model, n_samples, self._drawing_seed())
        return self._reader.write(drawn.reshape(n_samples, -1))

    def _drawing_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(_MOST_SEED))

    def reconstruct(self, X: Any) -> Any:
        """Rows as the model sees them: the mean of p(x | z) for z from q(z | x); holes are filled, too."""
        _, rows, batch = self._batch(X)
        with using_threads(self.threads):
            made = reconstruct(self._learned.model, batch, self._seed)
        return self._reader.write(made.reshape(len(rows), -1))

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """log p(x) of what is observed of every row, in nats: importance-weighted, 50 draws, standardised columns."""
        _, _, batch = self._batch(X)
        key = generator(batch.x.device, self._seed, "score samples")
        with using_threads(self.threads), torch.no_grad():
            found = importance_weighted(self._learned.model, batch, _LIKELIHOOD_SAMPLES, key, common=True)
        values: NDArray[np.float64] = found.numpy()
        return values

    def outlier_score(self, X: Any, method: str = "typicality") -> NDArray[np.float64]:
        """How unlike the training rows a row is; more is stranger (see `mmdgm.novelty`)."""
        if method not in ("typicality", "regret", "bound"):
            raise ValueError(f"method must be 'typicality', 'regret' or 'bound'; got {method!r}.")
        _, _, batch = self._batch(X)
        model = self._learned.model
        with using_threads(self.threads):
            if method == "typicality":
                return self._learned.typical.distance(model, batch, Regret(), self._seed)
            if method == "regret":
                found = likelihood_regret(model, batch, Regret(), self._seed)
            else:
                D, R = terms(model, batch, Regret.samples, self._seed)
                found = D + R
        scores: NDArray[np.float64] = found.double().cpu().numpy()
        return scores

    def save(self, path: str | Path) -> None:
        """Write the estimator into a new folder: weights as safetensors, the rest as JSON. Nothing is pickled."""
        from mmdgm.estimator.storing import save

        check_is_fitted(self)
        save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The estimator that `save` wrote."""
        from mmdgm.estimator.storing import load

        found = load(cls, Path(path))
        assert isinstance(found, cls)
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags


def _floating(x: NDArray[Any]) -> NDArray[Any]:
    """Bytes of pixels as values in [0, 1]."""
    return x.astype(np.float32) / 255 if x.dtype == np.uint8 else x
