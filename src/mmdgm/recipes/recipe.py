"""A recipe: a model and how it is trained, as a frozen value. Nothing here needs torch.

A recipe is changed with `dataclasses.replace`, or from the command line with `--set FIELD=VALUE`; every field
says its range beside it, and is checked against it when a recipe is made.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin

from mmdgm.errors import InputError, unknown
from mmdgm.recipes.layers import LAYER_RULE, is_layer

Rule = tuple[str, Callable[[Any], bool]]

_POSITIVE: Rule = ("greater than 0", lambda v: v > 0)
_NOT_NEGATIVE: Rule = ("at least 0", lambda v: v >= 0)
_AT_LEAST_ONE: Rule = ("at least 1", lambda v: v >= 1)
_SHARE: Rule = ("at least 0 and below 1", lambda v: 0 <= v < 1)
_LAYERS: Rule = (LAYER_RULE, lambda v: v is None or all(map(is_layer, v)))
_SIZES: Rule = ("layer sizes of at least 1", lambda v: v is None or all(size >= 1 for size in v))


def _setting(default: Any, meaning: str, rule: Rule | None = None) -> Any:
    return field(default=default, metadata={"meaning": meaning, "rule": rule})


@dataclass(frozen=True)
class Recipe:
    """A model and how it is trained; the fields are named as in the paper where it has a name for them."""

    name: str = _setting("mine", "what the recipe is called")
    summary: str = _setting("", "one line about it")

    # the data
    data: str = _setting("mnist", "the data it is trained on unless other data are named")
    split: Literal["paper", "whole"] = _setting("paper", "hold a sixth back for validation, or nothing")
    transform: Literal["none", "global", "local"] = _setting(
        "none", "contrast of each image: as it is, normalised over the image, or then also around every pixel"
    )

    # the model
    convolutions: tuple[str, ...] = _setting(
        (), "convolutional layers of the recognition network, before its hidden layers", _LAYERS
    )
    hidden: tuple[int, ...] = _setting((500, 500), "fully connected hidden layers of the recognition network", _SIZES)
    generative_hidden: tuple[int, ...] | None = _setting(
        None, "hidden layers of the generative network; none mirrors the recognition network", _SIZES
    )
    generative_convolutions: tuple[str, ...] | None = _setting(
        None,
        "convolutional layers of the generative network, after its hidden layers; none mirrors, nothing: no such",
        _LAYERS,
    )
    missing: Literal["zero", "mean", "mask", "factors"] = _setting(
        "zero",
        "what the recognition network sees of a missing entry: 0, the training mean, 0 with the mask beside x, or what "
        "factor analysis of the training rows expects, from which both networks then go on",
    )
    activation: Literal["softplus", "relu", "silu", "tanh"] = _setting("softplus", "of every hidden layer")
    normalise: bool = _setting(False, "batch normalisation in both networks")
    conditional: bool = _setting(
        False, "whether both networks are told the class; then p(y | x) is estimated, and needs no classifier"
    )
    latents: str = _setting("gaussian", "the family of z: gaussian, bernoulli, or one of yours")
    latent_size: int = _setting(50, "K, the number of latent variables", _AT_LEAST_ONE)
    prior_layers: int = _setting(
        0, "coupling layers of a learned prior p(z); 0: the prior of the family, such as N(0, I)", _NOT_NEGATIVE
    )
    likelihood: Literal[
        "bernoulli",
        "bernoulli-binarised",
        "gaussian-fixed",
        "gaussian-shared",
        "gaussian",
        "gaussian-predicted",
        "columns",
    ] = _setting("bernoulli-binarised", "p(x | z); binarised: training pixels are drawn anew at each step")
    features: Literal["hidden", "last", "latents"] = _setting(
        "hidden", "what the classifier reads: all hidden layers, the last one, or z"
    )

    # the learning problem
    bound: bool = _setting(True, "whether the bound is part of the objective (without: a plain classifier)")
    C: float = _setting(15.0, "weight of the hinge loss against the bound", _NOT_NEGATIVE)
    margin: float = _setting(3.0, "what the hinge loss asks for between the classes", _POSITIVE)
    class_weights: tuple[float, ...] = _setting(
        (),
        "what a hinge loss counts, for each class in turn; nothing: all alike",
        ("numbers of at least 0", lambda v: all(weight >= 0 for weight in v)),
    )
    weight_variance: float = _setting(1.0, "sigma^2, prior variance of the classifier's weights", _POSITIVE)
    adversary: float = _setting(
        0.0, "radius of the worst input perturbation under which the margin must hold, too", _NOT_NEGATIVE
    )

    # the gradient
    estimator: Literal["reparameterised", "score"] = _setting("reparameterised", "of the gradient")
    baseline: Literal["none", "leave-one-out", "learned"] = _setting(
        "leave-one-out", "variance reduction of the score estimator"
    )
    samples: int = _setting(1, "L, samples of z for each example and step", _AT_LEAST_ONE)
    rate: Literal["analytic", "sampled"] = _setting("analytic", "how KL(q || p) is computed")
    expected_features: Literal["analytic", "sampled"] = _setting(
        "analytic", "whether the classifier reads E[z] or samples, for features=latents"
    )

    # the optimisation
    epochs: int = _setting(100, "passes over the training rows", _AT_LEAST_ONE)
    pretraining_epochs: int = _setting(0, "how many of them come first without the hinge loss", _NOT_NEGATIVE)
    batch_size: int = _setting(500, "m, examples of a step", _AT_LEAST_ONE)
    optimiser: Literal["adam", "sgd"] = _setting("adam", "how the gradient is followed")
    learning_rate: float = _setting(1e-3, "its highest value", _POSITIVE)
    schedule: Literal["constant", "thirds", "cosine", "pegasos"] = _setting(
        "cosine", "the rate over time: constant, /3 at intervals, cosine, or Pegasos' sigma^2 N / t"
    )
    constant_share: float = _setting(0.0, "share of the steps before thirds or cosine begin to fall", _SHARE)
    warmup_share: float = _setting(0.02, "share of the steps over which the rate rises", _SHARE)
    weight_decay: float = _setting(0.0, "decoupled decay of the networks' weights, per unit rate", _NOT_NEGATIVE)
    generative_weight_decay: float | None = _setting(
        None,
        "the same for the generative network's weights; none: as weight_decay",
        ("at least 0", lambda v: v is None or v >= 0),
    )
    clip: float = _setting(0.0, "largest norm of a gradient; 0 for none", _NOT_NEGATIVE)
    dropout: float = _setting(0.0, "share of hidden units dropped in the recognition network", _SHARE)
    convolution_dropout: float = _setting(0.0, "share of units dropped after the convolutions marked drop", _SHARE)
    input_dropout: float = _setting(0.0, "share of inputs dropped", _SHARE)
    feature_dropout: float = _setting(0.0, "share of features dropped before the classifier", _SHARE)
    holes: float = _setting(
        0.0,
        "share of training rows with a random hole for the recognition network (see mmdgm.holes)",
        ("from 0 to 1", lambda v: 0 <= v <= 1),
    )
    warp: float = _setting(0.0, "strength of random distortions of training images; 0 for none", _NOT_NEGATIVE)
    ema: float = _setting(0.0, "decay per step of the averaged weights that are kept; 0 for none", _SHARE)
    select: Literal["last", "best"] = _setting("last", "which epoch's weights are kept, by validation data")

    def __post_init__(self) -> None:
        kinds = typing.get_type_hints(Recipe)
        for f in fields(self):
            value = getattr(self, f.name)
            if not _is_a(value, kinds[f.name]):
                raise InputError(f"{f.name} must be {describe(kinds[f.name])}; got {value!r}.")
            rule = f.metadata["rule"]
            if rule is not None and not rule[1](value):
                raise InputError(f"{f.name} must be {rule[0]}; got {value!r}.")
        self._check_together()

    def _check_together(self) -> None:
        for broken, message in self._conflicts():
            if broken:
                raise InputError(message)

    def _conflicts(self) -> Iterator[tuple[bool, str]]:
        """What fields must not be together: whether they are, and what to say."""
        yield (
            self.pretraining_epochs >= self.epochs,
            f"pretraining_epochs must be below epochs; got {self.pretraining_epochs} of {self.epochs}.",
        )
        yield (
            not self.bound and self.features == "latents",
            "features=latents needs bound=true: without the bound z is not learned.",
        )
        yield (
            not self.bound and not self.C,
            "bound=false with C=0 leaves nothing to learn; set C, or bound=true.",
        )
        yield (
            self.prior_layers > 0 and (self.latents != "gaussian" or self.rate != "sampled"),
            f"prior_layers={self.prior_layers} needs latents=gaussian and rate=sampled, since the rate has no closed "
            f"form then; got latents={self.latents}, rate={self.rate}.",
        )
        yield (
            self.prior_layers > 0 and not (self.bound and self.estimator == "reparameterised"),
            f"prior_layers={self.prior_layers} needs bound=true and estimator=reparameterised, or nothing would teach "
            f"the prior; got bound={str(self.bound).lower()}, estimator={self.estimator}.",
        )
        yield (
            self.conditional and (self.C > 0 or not self.bound),
            f"conditional=true needs C=0 and bound=true: classes are told apart by p(y | x); got C={self.C:g}, "
            f"bound={str(self.bound).lower()}.",
        )
        yield (
            self.conditional and bool(self.convolutions),
            "conditional=true is for fully connected recognition networks; use --set convolutions=.",
        )
        yield (
            self.conditional and self.adversary > 0,
            f"conditional=true has no margin to ask for near x; got adversary={self.adversary:g}. Use adversary=0.",
        )
        yield (
            self.adversary > 0 and self.estimator == "score",
            "adversary needs estimator=reparameterised; got estimator=score. Use --set adversary=0.",
        )
        yield (
            self.normalise and self.batch_size < 2,
            f"normalise=true needs batch_size of at least 2; got {self.batch_size}.",
        )
        yield (
            self.estimator == "score" and self.baseline == "leave-one-out" and self.samples < 2,
            f"baseline=leave-one-out needs samples of at least 2; got {self.samples}. "
            "Use --set samples=2 or --set baseline=learned.",
        )
        yield (
            self.missing == "factors"
            and not (self.bound and self.latents == "gaussian" and self.likelihood == "columns"),
            "missing=factors needs bound=true, latents=gaussian and likelihood=columns. Use --set missing=mask.",
        )
        last = (self.generative_convolutions or ("1xout",))[-1]
        yield (
            not last.partition(":")[0].endswith("xout"),
            f"generative_convolutions must end with a layer to the pixels, such as 5xout:up:full; got {last!r}.",
        )
        yield (
            self.transform != "none" and self.bound and not self.likelihood.startswith("gaussian"),
            f"transform={self.transform} makes pixels that are not in [0, 1]; got likelihood={self.likelihood}. "
            "Use --set likelihood=gaussian-shared, or --set transform=none.",
        )
        yield (
            self.schedule == "pegasos" and self.optimiser != "sgd",
            f"schedule=pegasos needs optimiser=sgd; got {self.optimiser}.",
        )
        yield (
            self.select == "best" and self.split == "whole",
            "select=best needs validation rows; split=whole has none. Use split=paper.",
        )

    @property
    def classifies(self) -> bool:
        """Whether a model of this recipe tells classes apart: by the max-margin classifier, or by p(y | x)."""
        return self.C > 0 or self.conditional

    def to_json(self) -> dict[str, Any]:
        """The recipe as it stands in a run folder."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(stored: dict[str, Any]) -> "Recipe":
        """The recipe that `to_json` wrote."""
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
        strange = sorted(set(values) - {f.name for f in fields(Recipe)})
        if strange:
            raise InputError(f"the recipe has fields that this version does not know: {', '.join(strange)}.")
        return Recipe(**values)


def _is_a(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if isinstance(kind, types.UnionType):
        return any(_is_a(value, one) for one in get_args(kind))
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_is_a(part, get_args(kind)[0]) for part in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return value is None if kind is type(None) else isinstance(value, kind)


def describe(kind: Any) -> str:
    """A type of a field in words."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    if isinstance(kind, types.UnionType):
        return " or ".join(describe(one) for one in get_args(kind))
    if get_origin(kind) is tuple:
        return {int: "whole numbers", str: "layers", float: "numbers"}[get_args(kind)[0]] + " with commas between them"
    words = {float: "a number", int: "a whole number", bool: "true or false", str: "text"}
    return words.get(kind, "none")


def changed(recipe: Recipe, settings: list[str]) -> Recipe:
    """The recipe after `FIELD=VALUE` settings, each checked for its name, its type and its range."""
    kinds = typing.get_type_hints(Recipe)
    changes: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise InputError(f"--set takes FIELD=VALUE; got '{setting}'.")
        if key not in kinds:
            raise unknown("field of a recipe", key, kinds)
        changes[key] = _parse(key, text, kinds[key])
    return dataclasses.replace(recipe, **changes)


def _parse(key: str, text: str, kind: Any) -> Any:
    for one in get_args(kind) if isinstance(kind, types.UnionType) else (kind,):
        try:
            return _parse_as(text, one)
        except ValueError:
            continue
    raise InputError(f"{key} must be {describe(kind)}; got '{text}'.")


def _parse_as(text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if kind is type(None):
        if text.lower() != "none":
            raise ValueError(text)
        return None
    if get_origin(kind) is tuple:
        return tuple(get_args(kind)[0](part) for part in text.split(",")) if text else ()
    if get_origin(kind) is Literal:
        return text  # checked against the known words when the recipe is made
    return kind(text)
