"""The model: a recognition network q(z | x), a generative network p(x | z), and a max-margin classifier."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from mmdgm.data.dataset import Schema
from mmdgm.errors import unknown
from mmdgm.latents import LATENTS, Latents
from mmdgm.likelihoods import build_likelihood
from mmdgm.networks import MLP, drop, full, linear
from mmdgm.recipes import Recipe


class Noise(NamedTuple):
    """All that is random in a step, drawn before it: the step itself is a function of (parameters, x, noise).

    latents: (L, B, K), from which z is made. pixels: (B, D), bytes from 0 to 254 to compare with those to binarise.
    dropout: masks for the input, each hidden layer and the features; none where nothing is dropped.
    """

    latents: Tensor
    pixels: Tensor | None = None
    dropout: tuple[Tensor | None, ...] = ()


class Recognised(NamedTuple):
    """What the recognition network says of x: q(z | x), and the activations of its hidden layers."""

    q: Distribution
    hidden: list[Tensor]


class Recognition(nn.Module):
    """q(z | x): a network, and a linear map from its last layer to the parameters of q."""

    def __init__(self, recipe: Recipe, width: int, latents: Latents) -> None:
        super().__init__()
        self.network = MLP(width, recipe.hidden, recipe.activation, recipe.normalise)
        last = self.network.sizes[-1]
        self.head = linear(last, latents.parameters * recipe.latent_size)
        with torch.no_grad():  # the first K outputs (mu) start as random as any layer, the rest (log sigma^2) at 0
            self.head.weight[recipe.latent_size :] = 0
        self.latents = latents

    def forward(self, x: Tensor, dropout: tuple[Tensor | None, ...] = (), remember: bool = True) -> Recognised:
        """Recognise x, in which a missing entry is 0; `remember` is for `BatchNorm`."""
        hidden = self.network(drop(x, dropout[0] if dropout else None), dropout[1:-1], remember)
        outputs = full(self.head(hidden[-1])).chunk(self.latents.parameters, dim=-1)
        return Recognised(self.latents.posterior(outputs), hidden)


class Generative(nn.Module):
    """p(x | z): a network, and a linear map from its last layer to the parameters of the likelihood."""

    def __init__(self, recipe: Recipe, schema: Schema) -> None:
        super().__init__()
        mirrored = recipe.hidden[::-1] if recipe.generative_hidden is None else recipe.generative_hidden
        self.network = MLP(recipe.latent_size, mirrored, recipe.activation, recipe.normalise)
        self.output = linear(self.network.sizes[-1], schema.width)
        self.likelihood = build_likelihood(recipe.likelihood, schema)

    def forward(self, z: Tensor) -> Distribution:
        """p(x | z) for z of shape (L, B, K)."""
        flat = z.flatten(0, -2)  # batch normalisation wants one batch dimension
        outputs = full(self.output(self.network(flat)[-1])).unflatten(0, z.shape[:-1])
        p: Distribution = self.likelihood(outputs)
        return p


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
        self.recognition = Recognition(recipe, schema.width, self.latents)
        self.generative = Generative(recipe, schema) if recipe.bound else None
        self.classifier = MaxMarginClassifier(self._feature_width(), classes)
        learned = recipe.estimator == "score" and recipe.baseline == "learned"
        self.baseline = linear(self.recognition.network.sizes[-1], 1, gain=0.0) if learned else None

    def _feature_width(self) -> int:
        sizes = self.recognition.network.sizes
        return {"hidden": sum(sizes), "last": sizes[-1], "latents": self.recipe.latent_size}[self.recipe.features]

    def features(self, recognised: Recognised, z: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """f, what the classifier reads: (B, F), or (L, B, F) for samples of z; without z, their expectation."""
        if self.recipe.features == "latents":
            f = recognised.q.mean if z is None else z
        elif self.recipe.features == "last":
            f = recognised.hidden[-1]
        else:
            f = torch.cat(recognised.hidden, dim=-1)
        return drop(f, mask)

    def scores(self, x: Tensor) -> Tensor:
        """F(y; x) for every class y, from expected features."""
        decision: Tensor = self.classifier(self.features(self.recognition(x)))
        return decision

    def draw_noise(self, examples: int, generator: torch.Generator, samples: int | None = None) -> Noise:
        """All the noise of a training step; the number of samples is the recipe's unless given."""
        recipe, device = self.recipe, generator.device
        shape = (samples or recipe.samples, examples, recipe.latent_size)
        pixels = None
        if recipe.likelihood == "bernoulli-binarised":
            pixels = _random_bytes((examples, self.schema.width), generator)
            pixels = pixels - (pixels >> 7)  # 0 ... 255 to 0 ... 254: a pixel's probability is off by < 0.002
        sizes = (self.schema.width, *self.recognition.network.sizes, self.classifier.linear.in_features)
        rates = (recipe.input_dropout, *[recipe.dropout] * (len(sizes) - 2), recipe.feature_dropout)
        masks: tuple[Tensor | None, ...] = ()
        if any(rates):
            masks = tuple(
                _mask(examples, size, rate, generator) if rate else None
                for size, rate in zip(sizes, rates, strict=True)
            )
        latents = self.latents.noise(shape, generator) if recipe.bound else torch.zeros(shape, device=device)
        return Noise(latents, pixels, masks)


def _random_bytes(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Uniform random bytes, eight from each 64-bit draw: binarising costs a fifth of what `torch.rand` would."""
    count = shape[0] * shape[1]
    words = torch.empty(-(-count // 8), dtype=torch.int64, device=generator.device)
    words.random_(-(2**63), None, generator=generator)
    return words.view(torch.uint8)[:count].view(shape)


def _mask(examples: int, size: int, rate: float, generator: torch.Generator) -> Tensor:
    """A dropout mask: 1 / keep where a unit stays, 0 where it goes; rates are rounded to a 256th."""
    dropped = max(1, round(256 * rate))
    stays = _random_bytes((examples, size), generator) >= dropped
    return stays.to(torch.float32) * (256 / (256 - dropped))


def initialised(recipe: Recipe, schema: Schema, classes: int, seed: int) -> MaxMarginDGM:
    """A model with weights drawn from the seed; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MaxMarginDGM(recipe, schema, max(2, classes))
