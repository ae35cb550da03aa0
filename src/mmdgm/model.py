"""The model: a recognition network q(z | x), a generative network p(x | z), and a max-margin classifier."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from mmdgm.convolution import ConvolutionStack, Shape, UnpoolingStack
from mmdgm.data.batches import Batch, values
from mmdgm.data.dataset import Schema
from mmdgm.data.transforms import Contrast, contrast
from mmdgm.errors import InputError, unknown
from mmdgm.factors import Factors, fit_factors
from mmdgm.holes import random_holes
from mmdgm.latents import LATENTS, Latents
from mmdgm.likelihoods import ColumnsLikelihood, build_likelihood
from mmdgm.networks import MLP, Linear, drop, full, linear
from mmdgm.objective import sampled_rate
from mmdgm.priors import FamilyPrior, FlowPrior, Prior
from mmdgm.recipes import Recipe
from mmdgm.recipes.layers import layers, mirror
from mmdgm.runtime import generator

_EVIDENCE_SAMPLES = 10
"""Samples of z for an estimate of log p(x | y)."""
_LEAST_PROBABILITY = 0.01
"""Of a level when a generative network starts from factor analysis."""


class Noise(NamedTuple):
    """All that is random in a step, drawn before it: the step itself is a function of (parameters, x, noise).

    latents: (L, B, K), from which z is made. pixels: (B, D), bytes from 0 to 254 to compare with those to binarise.
    dropout: masks for the input, each hidden layer and the features; none where nothing is dropped.
    hidden: (B, D), true where the recognition network does not see an entry although it is observed.
    """

    latents: Tensor
    pixels: Tensor | None = None
    dropout: tuple[Tensor | None, ...] = ()
    hidden: Tensor | None = None


class Recognised(NamedTuple):
    """What the recognition network says of x: q(z | x), and the activations of its hidden layers.

    With factor analysis the row that it completed comes before them.
    """

    q: Distribution
    hidden: list[Tensor]


class Recognition(nn.Module):
    """q(z | x): a network, and a linear map from its last layer to the parameters of q."""

    def __init__(self, recipe: Recipe, schema: Schema, latents: Latents, told: int) -> None:
        super().__init__()
        self.network = _recognition_network(recipe, schema, told)
        self.channels = _channels(schema)
        self.with_mask = recipe.missing == "mask"
        self.fill = nn.Buffer(torch.zeros(schema.width)) if recipe.missing == "mean" else None
        self.factors = Factors(schema.width, recipe.latent_size) if recipe.missing == "factors" else None
        last = self.network.sizes[-1]
        self.head = linear(last, latents.parameters * recipe.latent_size)
        with torch.no_grad():  # the first K outputs (mu) start as random as any layer, the rest (log sigma^2) at 0;
            self.head.weight[0 if self.factors else recipe.latent_size :] = 0  # all at 0 where factors go before
        self.latents = latents

    def forward(
        self,
        x: Tensor,
        seen: Tensor,
        dropout: tuple[Tensor | None, ...] = (),
        remember: bool = True,
        label: Tensor | None = None,
    ) -> Recognised:
        """Recognise what is `seen` of x, told its class or not; `remember` is for `BatchNorm`."""
        analysed = None if self.factors is None else self.factors(x, seen)
        x = drop(self._completed(x, seen) if analysed is None else analysed.x, dropout[0] if dropout else None)
        if self.with_mask:
            x = beside(x, seen.to(x.dtype), self.channels)
        hidden = self.network(told(x, label), dropout[1:-1], remember)
        outputs = full(self.head(hidden[-1])).chunk(self.latents.parameters, dim=-1)
        if analysed is None:
            return Recognised(self.latents.posterior(outputs), hidden)
        mu, log_variance = outputs
        q = self.latents.posterior((analysed.mean + mu, analysed.variance.log() + log_variance))
        return Recognised(q, [x, *hidden])

    def _completed(self, x: Tensor, seen: Tensor) -> Tensor:
        if self.fill is not None:
            return torch.where(seen, x, self.fill.to(x.dtype))
        return x if all_seen(seen) else x * seen


def all_seen(seen: Tensor) -> bool:
    """Whether a mask is the one that stands for all rows of data without holes (see `Batch`); it costs no work."""
    return seen.stride(0) == 0


def told(x: Tensor, label: Tensor | None) -> Tensor:
    """x, or z, and beside it the class as numbers (..., M), if there is one to tell."""
    return x if label is None else torch.cat([x, label.to(x.dtype).expand(*x.shape[:-1], -1)], dim=-1)


def beside(x: Tensor, y: Tensor, channels: int) -> Tensor:
    """(B, D) and (B, D) to (B, 2 D): the channels of every pixel, those of x before those of y."""
    parts = [part.expand(x.shape).unflatten(-1, (-1, channels)) for part in (x, y)]
    return torch.cat(parts, dim=-1).flatten(1)


class Generative(nn.Module):
    """p(x | z): a network, and a linear map from its last layer to the parameters of the likelihood."""

    def __init__(self, recipe: Recipe, schema: Schema, told: int) -> None:
        super().__init__()
        mirrored = recipe.hidden[::-1] if recipe.generative_hidden is None else recipe.generative_hidden
        self.network = MLP(recipe.latent_size + told, mirrored, recipe.activation, recipe.normalise)
        self.likelihood = build_likelihood(recipe.likelihood, schema)
        self.output = _generative_output(recipe, schema, self.network.sizes[-1], self.likelihood.outputs)
        self.loadings = linear(recipe.latent_size, schema.width, gain=0.0) if recipe.missing == "factors" else None

    def forward(self, z: Tensor, label: Tensor | None = None) -> Distribution:
        """p(x | z) for z of shape (L, B, K), or p(x | z, y)."""
        flat = told(z, label).flatten(0, -2)  # batch normalisation wants one batch dimension
        outputs = full(self.output(self.network(flat)[-1])).unflatten(0, z.shape[:-1])
        if self.loadings is not None:
            outputs = outputs + full(self.loadings(z))
        p: Distribution = self.likelihood(outputs)
        return p

    @torch.no_grad()
    def go_on_from(self, factors: Factors) -> None:
        """Start as factor analysis: the means of real columns as they are there, logits of the others near their mean.

        A probability p changes by p (1 - p) = unit^2 where its logit changes by 1.
        """
        assert self.loadings is not None
        assert isinstance(self.output, Linear)
        assert isinstance(self.likelihood, ColumnsLikelihood)
        nn.init.zeros_(self.output.weight)
        center, unit = factors.center, factors.unit
        for kind, where in self.likelihood.groups:
            slope, start = unit[where], center[where]
            if kind == "real":
                self.likelihood.log_variance[where] = (factors.psi[where] * slope.square()).log()
            else:
                p = start.clamp(_LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
                slope, start = 1 / slope, p.logit() if kind == "binary" else p.log()
            self.loadings.weight[where] = factors.loadings[where] * slope.unsqueeze(-1)
            self.loadings.bias[where] = start


def _recognition_network(recipe: Recipe, schema: Schema, told: int) -> MLP | ConvolutionStack:
    inputs = 2 if recipe.missing == "mask" else 1
    if not recipe.convolutions:
        return MLP(inputs * schema.width + told, recipe.hidden, recipe.activation, recipe.normalise, recipe.dropout)
    channels, *size = _image_shape(schema, "convolutions")
    return ConvolutionStack(
        (inputs * channels, size[0], size[1]),
        layers(recipe.convolutions),
        recipe.hidden,
        recipe.activation,
        recipe.normalise,
        (recipe.convolution_dropout, recipe.dropout),
    )


def _generative_output(recipe: Recipe, schema: Schema, width: int, outputs: int) -> Linear | UnpoolingStack:
    """From the last hidden layer to `outputs` numbers for each entry of x."""
    encoder, named = layers(recipe.convolutions), recipe.generative_convolutions
    decoder = mirror(encoder) if named is None else layers(named)
    if not decoder:
        return linear(width, outputs * schema.width)
    shape = _image_shape(schema, "generative_convolutions")
    channels = encoder[-1].channels if encoder else decoder[0].channels
    return UnpoolingStack(width, channels or 1, shape, decoder, outputs, recipe.activation, recipe.normalise)


def _channels(schema: Schema) -> int:
    """How many numbers of a row belong together: a pixel's channels, or all columns of a table."""
    return schema.width if schema.image_shape is None else schema.width // math.prod(schema.image_shape[:2])


def _image_shape(schema: Schema, field: str) -> Shape:
    """Channels, height and width of the images that a field of the recipe is about."""
    if schema.image_shape is None:
        raise InputError(
            f"{field} is for images, but the data are a table. Leave it out, or use the recipe mmva-table."
        )
    height, width, *channels = schema.image_shape
    return (channels[0] if channels else 1), height, width


class MaxMarginClassifier(nn.Module):
    """F(y; x) = E[eta . f(y, z)] with q(eta) = N(lambda, sigma^2 I): linear in the features, with a bias.

    The bias is the weight of a feature that is always 1, and has the same prior as every other weight.
    """

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.linear = linear(features, classes, gain=0.0)

    def forward(self, f: Tensor) -> Tensor:
        """Decision values of every class."""
        return full(self.linear(f))

    def squared_norm(self) -> Tensor:
        """|lambda|^2."""
        return self.linear.weight.square().sum() + self.linear.bias.square().sum()


class MaxMarginDGM(nn.Module):
    """A max-margin deep generative model; which networks, latents and likelihood it has is the recipe's choice."""

    def __init__(self, recipe: Recipe, schema: Schema, classes: int) -> None:
        super().__init__()
        if recipe.latents not in LATENTS:
            raise unknown("family of latents", recipe.latents, LATENTS)
        self.recipe, self.schema = recipe, schema
        self.latents = LATENTS[recipe.latents]
        if recipe.bound and recipe.estimator == "reparameterised" and not self.latents.reparameterised:
            raise InputError(
                f"latents={recipe.latents} cannot be reparameterised: no gradient would reach q(z | x). "
                "Use --set estimator=score --set samples=2."
            )
        if recipe.transform != "none":
            _image_shape(schema, f"transform={recipe.transform}")
        self.told = classes if recipe.conditional else 0
        self.prior: Prior = FamilyPrior(self.latents)
        if recipe.prior_layers:
            self.prior = FlowPrior(recipe.latent_size, recipe.prior_layers)
        self.recognition = Recognition(recipe, schema, self.latents, self.told)
        self.generative = Generative(recipe, schema, self.told) if recipe.bound else None
        self.classifier = MaxMarginClassifier(self._feature_width(), classes)
        learned = recipe.estimator == "score" and recipe.baseline == "learned"
        self.baseline = linear(self.recognition.network.sizes[-1], 1, gain=0.0) if learned else None

    def _feature_width(self) -> int:
        sizes = self.recognition.network.sizes
        if self.recognition.factors is not None:
            sizes = (self.schema.width, *sizes)
        return {"hidden": sum(sizes), "last": sizes[-1], "latents": self.recipe.latent_size}[self.recipe.features]

    def start_from_factors(self, rows: Batch, weights: Tensor) -> None:
        """Let both networks go on from factor analysis of these rows, each counted by its weight."""
        assert self.recognition.factors is not None
        assert self.generative is not None
        fit_factors(self.recognition.factors, rows.x, rows.observed, weights)
        self.generative.go_on_from(self.recognition.factors)

    def contrast(self, x: Tensor, observed: Tensor) -> Contrast:
        """The contrast of images, which the recipe's transform takes away."""
        return contrast(self.recipe.transform, x, observed, self.schema.image_shape or ())

    def prepared(self, batch: Batch, hidden: Tensor | None = None) -> Batch:
        """Rows as the networks see them: bytes as values in [0, 1], contrast normalised if the recipe says so.

        What is `hidden` from the recognition network has no part in the contrast, which it would tell of.
        """
        x = values(batch.x)
        if self.recipe.transform != "none":
            x = self.contrast(x, visible(batch.observed, hidden)).normalise(x) * batch.observed
        return batch._replace(x=x)

    def features(self, recognised: Recognised, z: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """f, what the classifier reads: (B, F), or (L, B, F) for samples of z; without z, their expectation."""
        if self.recipe.features == "latents":
            f = recognised.q.mean if z is None else z
        elif self.recipe.features == "last":
            f = recognised.hidden[-1]
        else:
            f = torch.cat(recognised.hidden, dim=-1)
        return drop(f, mask)

    def label(self, y: Tensor) -> Tensor | None:
        """What both networks are told of the classes y, (B, M): nothing unless the recipe is conditional."""
        return nn.functional.one_hot(y, self.told) if self.told else None

    def scores(self, x: Tensor, seen: Tensor) -> Tensor:
        """F(y; x) for every class y, from prepared rows and expected features."""
        if self.told:
            return class_evidence(self, x, seen)
        decision: Tensor = self.classifier(self.features(self.recognition(x, seen)))
        return decision

    def draw_noise(self, examples: int, generator: torch.Generator, samples: int | None = None) -> Noise:
        """All the noise of a training step; the number of samples is the recipe's unless given."""
        recipe, device = self.recipe, generator.device
        shape = (samples or recipe.samples, examples, recipe.latent_size)
        pixels = None
        if recipe.likelihood == "bernoulli-binarised":
            pixels = _random_bytes((examples, self.schema.width), generator)
            pixels = pixels - (pixels >> 7)  # 0 ... 255 to 0 ... 254: a pixel's probability is off by < 0.002
        drops = (
            (self.schema.width, recipe.input_dropout),
            *self.recognition.network.drops,
            (self.classifier.linear.in_features, recipe.feature_dropout),
        )
        masks: tuple[Tensor | None, ...] = ()
        if any(rate for _, rate in drops):
            masks = tuple(_mask(examples, size, rate, generator) if rate else None for size, rate in drops)
        latents = self.latents.noise(shape, generator) if recipe.bound else torch.zeros(shape, device=device)
        hidden = random_holes(examples, self.schema, recipe.holes, generator) if recipe.holes else None
        return Noise(latents, pixels, masks, hidden)


def class_evidence(model: MaxMarginDGM, x: Tensor, seen: Tensor) -> Tensor:
    """log p(x | y) for every class y, (B, M), each estimated with the same few samples of z, weighted by importance.

    With classes that are equally probable, p(y | x) is their softmax.
    """
    assert model.generative is not None
    shape = (_EVIDENCE_SAMPLES, 1, model.recipe.latent_size)
    noise = model.latents.noise(shape, generator(x.device, "class evidence"))
    found = []
    for y in range(model.told):
        label = model.label(torch.full((len(x),), y, device=x.device))
        q = model.recognition(x, seen, label=label).q
        z = model.latents.make(q, noise)
        log_x = (model.generative(z, label).log_prob(x) * seen).sum(-1)
        log_weight = log_x - sampled_rate(q, model.prior.log_prob(z), z)
        found.append(log_weight.logsumexp(0) - math.log(_EVIDENCE_SAMPLES))
    return torch.stack(found, dim=-1)


def visible(observed: Tensor, hidden: Tensor | None) -> Tensor:
    """What the recognition network sees."""
    return observed if hidden is None else observed & ~hidden


def _random_bytes(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Uniform random bytes, eight from each 64-bit draw: binarising costs a fifth of what `torch.rand` would."""
    count = shape[0] * shape[1]
    words = torch.empty(-(-count // 8), dtype=torch.int64, device=generator.device)
    words.random_(-(2**63), None, generator=generator)
    return words.view(torch.uint8)[:count].view(shape)


def _mask(examples: int, size: int, rate: float, generator: torch.Generator) -> Tensor:
    """A dropout mask: 1 / keep where a unit stays, 0 where it goes; rates are rounded to a 256th."""
    dropped = min(255, max(1, round(256 * rate)))
    stays = _random_bytes((examples, size), generator) >= dropped
    return stays.to(torch.float32) * (256 / (256 - dropped))


def initialised(recipe: Recipe, schema: Schema, classes: int, seed: int) -> MaxMarginDGM:
    """A model with weights drawn from the seed; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MaxMarginDGM(recipe, schema, max(2, classes))
