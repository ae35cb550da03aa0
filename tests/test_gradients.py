"""Both gradient estimators, on models whose exact gradient is known."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC
from torch import Tensor

from mmdgm.adversary import worst_perturbation
from mmdgm.data.batches import Batch
from mmdgm.data.dataset import UNKNOWN, Dataset, Schema
from mmdgm.data.splits import Splits
from mmdgm.gradients import estimate, observe
from mmdgm.model import MaxMarginDGM, Noise
from mmdgm.networks import Linear
from mmdgm.objective import Objective, hinge
from mmdgm.recipes import Recipe, recipe_named
from mmdgm.training import Trainer
from tests.conftest import PLAIN, small

IMAGE = Schema(image_shape=(2, 2))
OBJECTIVE = Objective(C=2.0, margin=1.0, weight_variance=1.0, N=100)


def batch(rows: int = 3) -> Batch:
    g = torch.Generator().manual_seed(5)
    return Batch(torch.rand(rows, 4, generator=g), torch.ones(rows, 4, dtype=torch.bool), torch.arange(rows) % 2)


def model(recipe: Recipe, spread: float = 0.7, schema: Schema = IMAGE) -> MaxMarginDGM:
    """A model with every weight random, in double precision."""
    with torch.random.fork_rng():
        made = MaxMarginDGM(recipe, schema, 2).double()
    g = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(spread * torch.randn(parameter.shape, generator=g))
    return made


def gradients(made: MaxMarginDGM, surrogate: Tensor) -> Tensor:
    """The gradient in the recognition network's weights, as one vector."""
    found = torch.autograd.grad(surrogate, list(made.recognition.parameters()), allow_unused=True)
    return torch.cat([g.flatten() for g in found if g is not None])


def sampled_gradients(made: MaxMarginDGM, rows: Batch, objective: Objective, draws: int) -> Tensor:
    g = torch.Generator().manual_seed(7)
    found = []
    for _ in range(draws):
        noise = made.draw_noise(len(rows.x), g)
        noise = noise._replace(latents=noise.latents.double())
        found.append(gradients(made, estimate(made, rows, noise, objective).surrogate))
    return torch.stack(found)


def assert_unbiased(sampled: Tensor, exact: Tensor) -> None:
    """The mean is within five standard errors everywhere, and the exact gradient is not just noise."""
    error = sampled.std(0) / math.sqrt(len(sampled))
    assert ((sampled.mean(0) - exact).abs() < 5 * error + 1e-9).all()
    assert exact.abs().max() > 5 * error.max()


def linear_gaussian(rate: str = "analytic") -> MaxMarginDGM:
    """No hidden layers, q linear in x, p(x | z) = N(Wz + b, I): J is quadratic in z, its mean a formula."""
    return model(
        small(
            hidden=(),
            generative_hidden=(),
            latent_size=2,
            likelihood="gaussian-fixed",
            features="latents",
            rate=rate,
        )
    )


def exact_linear_gaussian(made: MaxMarginDGM, rows: Batch, objective: Objective) -> Tensor:
    """J with E_q taken by hand: |x - W mu - b|^2 / 2 + sum_k s_k^2 |w_k|^2 / 2 + D log(2 pi) / 2 + KL."""
    assert made.generative is not None
    q = made.recognition(rows.x, rows.observed).q
    assert isinstance(made.generative.output, Linear)
    W, b = made.generative.output.weight, made.generative.output.bias
    D = 0.5 * (rows.x - q.mean @ W.T - b).square().sum(-1) + 0.5 * (q.variance @ W.square().T).sum(-1)
    D = D + rows.x.shape[-1] * 0.5 * math.log(2 * math.pi)
    H = hinge(made.classifier(q.mean).double(), rows.y, objective.margin)
    R = made.latents.divergence(q)
    J: Tensor = (D + R + objective.C * H).mean() + made.classifier.squared_norm() / (2 * objective.N)
    return J


@pytest.mark.parametrize("rate", ["analytic", "sampled"])
def test_reparameterised_gradient_is_unbiased_on_a_linear_gaussian_model(rate: str) -> None:
    made, rows = linear_gaussian(rate), batch()
    rows = rows._replace(x=rows.x.double())
    exact = gradients(made, exact_linear_gaussian(made, rows, OBJECTIVE))
    assert_unbiased(sampled_gradients(made, rows, OBJECTIVE, 3000), exact)


def belief_network(**changes: object) -> MaxMarginDGM:
    """Three binary z: small enough to enumerate."""
    settings = {"latents": "bernoulli", "estimator": "score", "latent_size": 3, "samples": 2, "hidden": (3,)}
    return model(small(likelihood="bernoulli", **{**settings, **changes}), spread=1.0)


def exact_belief_network(made: MaxMarginDGM, rows: Batch, objective: Objective) -> Tensor:
    """J with E_q by enumerating z; the classifier reads what does not depend on z's samples."""
    assert made.generative is not None
    recognised = made.recognition(rows.x, rows.observed)
    every = torch.tensor(list(product([0.0, 1.0], repeat=3)), dtype=torch.float64)
    z = every.unsqueeze(1).expand(-1, len(rows.x), -1)
    probability = recognised.q.log_prob(z).sum(-1).exp()
    D = (probability * -(made.generative(z).log_prob(rows.x)).sum(-1)).sum(0)
    H = hinge(made.classifier(made.features(recognised)).double(), rows.y, objective.margin)
    R = made.latents.divergence(recognised.q)
    J: Tensor = (D + R + objective.C * H).mean() + made.classifier.squared_norm() / (2 * objective.N)
    return J


@pytest.mark.parametrize(
    ("baseline", "rate"), [("none", "analytic"), ("leave-one-out", "sampled"), ("learned", "analytic")]
)
def test_score_function_gradient_is_unbiased_on_a_model_that_can_be_enumerated(baseline: str, rate: str) -> None:
    made, rows = belief_network(baseline=baseline, rate=rate), batch()
    rows = rows._replace(x=rows.x.double())
    exact = gradients(made, exact_belief_network(made, rows, OBJECTIVE))
    assert_unbiased(sampled_gradients(made, rows, OBJECTIVE, 4000), exact)


@pytest.mark.parametrize(("baseline", "margin"), [("none", 1.0), ("leave-one-out", 1.0), ("leave-one-out", 100.0)])
def test_score_function_gradient_with_the_hinge_of_samples(baseline: str, margin: float) -> None:
    """y~ is from the expected features, so the hinge is linear in z given x, and the mean is that of E[f]."""
    made = belief_network(features="latents", expected_features="sampled", baseline=baseline)
    rows = batch()
    rows = rows._replace(x=rows.x.double())
    objective = Objective(C=2.0, margin=margin, weight_variance=1.0, N=100)
    exact = gradients(made, exact_belief_network(made, rows, objective))
    assert_unbiased(sampled_gradients(made, rows, objective, 4000), exact)


def test_a_baseline_lowers_the_variance() -> None:
    rows = batch()
    rows = rows._replace(x=rows.x.double())

    def variance(baseline: str) -> float:
        made = belief_network(baseline=baseline, samples=4)
        return sampled_gradients(made, rows, OBJECTIVE, 500).var(0).sum().item()

    assert variance("leave-one-out") < 0.5 * variance("none")


def test_the_learned_baseline_learns_the_cost() -> None:
    made, rows = belief_network(baseline="learned"), batch()
    rows = rows._replace(x=rows.x.double())
    assert made.baseline is not None
    optimiser = torch.optim.Adam(made.baseline.parameters(), lr=0.05)
    g = torch.Generator().manual_seed(1)

    def gap() -> float:
        noise = made.draw_noise(3, g, samples=500)
        z = made.latents.make(made.recognition(rows.x, rows.observed).q, noise.latents.double())
        assert made.generative is not None
        assert made.baseline is not None
        cost = -(made.generative(z).log_prob(rows.x)).sum(-1)
        learned = made.baseline(made.recognition(rows.x, rows.observed).hidden[-1]).squeeze(-1)
        return float((cost.mean(0) - learned).abs().mean().detach())

    before = gap()
    for _ in range(400):
        noise = made.draw_noise(3, g)
        surrogate = estimate(made, rows, noise._replace(latents=noise.latents.double()), OBJECTIVE).surrogate
        optimiser.zero_grad()
        surrogate.backward()
        optimiser.step()
    assert gap() < 0.2 * before


def test_the_sampled_hinge_is_an_upper_bound_in_expectation() -> None:
    made, rows = linear_gaussian(), batch(40)
    rows = rows._replace(x=rows.x.double())
    recognised = made.recognition(rows.x, rows.observed)
    exact = hinge(made.classifier(recognised.q.mean), rows.y, 1.0)
    noise = made.latents.noise((20_000, 40, 2), torch.Generator().manual_seed(0)).double()
    sampled = hinge(made.classifier(made.latents.make(recognised.q, noise)), rows.y, 1.0)
    error = sampled.std(0) / math.sqrt(len(sampled))
    assert (sampled.mean(0) > exact - 5 * error).all()
    assert (sampled.mean(0) > exact + 5 * error).any()


def test_c_zero_is_the_vae() -> None:
    """No gradient reaches the classifier but its prior's, and the recognition network's is the bound's alone."""
    recipe = small(likelihood="bernoulli")
    made, rows = model(recipe), batch()
    rows = rows._replace(x=rows.x.double())
    noise = made.draw_noise(3, torch.Generator().manual_seed(0))
    noise = noise._replace(latents=noise.latents.double())
    nothing = Objective(C=0.0, margin=1.0, weight_variance=1e12, N=100)
    ours = gradients(made, estimate(made, rows, noise, nothing).surrogate)
    assert made.generative is not None
    q = made.recognition(rows.x, rows.observed).q
    z = q.mean + q.stddev * noise.latents
    logits = made.generative(z).logits
    bce = torch.nn.functional.binary_cross_entropy_with_logits(logits[0], rows.x, reduction="none").sum(-1)
    kl = torch.distributions.kl_divergence(q, torch.distributions.Normal(torch.zeros_like(z[0]), torch.ones_like(z[0])))
    torch.testing.assert_close(ours, gradients(made, (bce + kl.sum(-1)).mean()))


def test_unlabelled_rows_and_missing_entries_cost_nothing() -> None:
    made, rows = model(small(likelihood="bernoulli")), batch()
    rows = rows._replace(x=rows.x.double(), y=torch.full((3,), UNKNOWN))
    noise = made.draw_noise(3, torch.Generator().manual_seed(0))
    noise = noise._replace(latents=noise.latents.double())
    assert estimate(made, rows, noise, OBJECTIVE).terms.hinge.item() == 0
    unseen = rows._replace(observed=torch.zeros_like(rows.observed))
    assert estimate(made, unseen, noise, OBJECTIVE).terms.distortion.item() == 0


def test_the_worst_perturbation_of_a_linear_classifier_is_along_its_weights() -> None:
    made = model(small(hidden=(), bound=False, likelihood="bernoulli"))
    rows = batch()
    rows = rows._replace(x=rows.x.double())
    w = made.classifier.linear.weight
    found = worst_perturbation(made, rows, rows.observed, radius=0.5)
    towards = torch.stack([w[1] - w[0], w[0] - w[1], w[1] - w[0]])
    torch.testing.assert_close(found, 0.5 * towards / towards.norm(dim=-1, keepdim=True))


def test_binarised_pixels_have_the_grey_values_as_their_means() -> None:
    levels = torch.tensor([0, 1, 64, 127, 128, 200, 254, 255], dtype=torch.uint8)
    made = model(small(likelihood="bernoulli-binarised"), schema=Schema(image_shape=(2, 4)))
    noise = made.draw_noise(200_000, torch.Generator().manual_seed(0), samples=1)
    rows = Batch(levels.expand(200_000, 8), torch.ones(1, 1, dtype=torch.bool), torch.zeros(200_000))
    x = observe(made, rows, noise).x
    assert set(x.unique().tolist()) == {0.0, 1.0}
    assert (x.mean(0) - levels / 255).abs().max() < 0.002 + 5 * 0.5 / math.sqrt(200_000)
    assert x[:, 0].max() == 0
    assert x[:, -1].min() == 1


def _svm_objective(weights: np.ndarray, x: np.ndarray, y: np.ndarray, C: float) -> float:
    """1/2 |w|^2 + C sum_n max_y [1(y != y_n) + w_y x - w_yn x], written with loops."""
    total = 0.5 * float((weights**2).sum())
    for row, label in zip(x, y, strict=True):
        scores = weights @ row
        total += C * max(float(scores[c] - scores[label] + (c != label)) for c in range(len(weights)))
    return total


@pytest.mark.parametrize("average", [False, True])
def test_without_latents_the_learner_is_pegasos(average: bool) -> None:
    """On the digits it reaches the objective value of an independent solver (liblinear's Crammer-Singer)."""
    digits = load_digits()
    x, y = (digits.images / 16).astype(np.float32), digits.target.astype(np.int64)
    C = 0.05
    solver = LinearSVC(C=C, multi_class="crammer_singer", fit_intercept=True, tol=1e-4, max_iter=1000, random_state=0)
    flat = x.reshape(len(x), -1).astype(np.float64)
    solver.fit(flat, y)
    with_bias = np.hstack([flat, np.ones((len(flat), 1))])
    best = _svm_objective(np.hstack([solver.coef_, solver.intercept_[:, None]]), with_bias, y, C)

    data = Dataset("digits", x, y, tuple("0123456789"), Schema(image_shape=(8, 8)))
    splits = Splits(data, data.take(slice(0, 0)), data.take(slice(0, 0)))
    kept = ("hidden", "bound", "optimiser", "schedule", "likelihood")
    recipe = small(
        **{k: getattr(recipe_named("svm-digits"), k) for k in kept},
        C=C, margin=1.0, epochs=250, batch_size=100, learning_rate=1.0, split="whole", ema=0.999 if average else 0.0,
    )  # fmt: skip
    state = Trainer(recipe, splits, 0, PLAIN).run()
    assert state is not None
    ours = np.hstack(
        [
            state.best["classifier.linear.weight"].numpy(),
            state.best["classifier.linear.bias"].numpy()[:, None],
        ]
    ).astype(np.float64)
    found = _svm_objective(ours, with_bias, y, C)
    assert best * 0.999 < found < best * (1.01 if average else 1.05)


def test_two_samples_halve_the_variance() -> None:
    rows = batch()
    rows = rows._replace(x=rows.x.double())

    def variance(samples: int) -> float:
        made = model(small(likelihood="bernoulli", samples=samples))
        return sampled_gradients(made, rows, OBJECTIVE, 400).var(0).sum().item()

    assert 0.35 < variance(2) / variance(1) < 0.65


def test_noise_is_a_function_of_the_key() -> None:
    made = model(small(dropout=0.3, likelihood="bernoulli-binarised"))

    def draw(seed: int) -> Noise:
        return made.draw_noise(6, torch.Generator().manual_seed(seed))

    def flat(noise: Noise) -> list[Tensor]:
        return [tensor for tensor in (noise.latents, noise.pixels, *noise.dropout) if tensor is not None]

    assert all(torch.equal(a, b) for a, b in zip(flat(draw(1)), flat(draw(1)), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(flat(draw(1)), flat(draw(2)), strict=True))
