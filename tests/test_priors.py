"""Priors of z: densities that are ones, draws that follow them, and a bound that they make better."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mmdgm.api import train
from mmdgm.errors import InputError
from mmdgm.evaluation import bound_terms, importance_weighted
from mmdgm.latents import BernoulliLatents, GaussianLatents
from mmdgm.model import MaxMarginDGM
from mmdgm.novelty import terms
from mmdgm.priors import FamilyPrior, FlowPrior
from mmdgm.recipes import Recipe, changed, recipe_named
from mmdgm.runtime import drawing, generator
from mmdgm.sampling import sample
from tests.conftest import factor_analysis, rows


def _flow(latent_size: int, layers: int, bent: float, seed: int = 0) -> FlowPrior:
    """A flow that is as far from the identity as `bent` says."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        flow = FlowPrior(latent_size, layers)
        for coupling in flow.couplings if bent else ():
            torch.nn.init.normal_(coupling.head.weight, std=bent)
            torch.nn.init.normal_(coupling.head.bias, std=bent)
    return flow


def test_a_family_s_prior_is_the_sum_over_its_variables() -> None:
    z = torch.tensor([[0.0, 1.0], [2.0, -1.0]])
    expected = -0.5 * z.square().sum(-1) - math.log(2 * math.pi)
    torch.testing.assert_close(FamilyPrior(GaussianLatents()).log_prob(z), expected)
    bits = torch.tensor([[0.0, 1.0, 1.0]])
    torch.testing.assert_close(FamilyPrior(BernoulliLatents()).log_prob(bits), torch.tensor([-3 * math.log(2)]))


def test_a_flow_starts_as_the_standard_normal() -> None:
    z = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(_flow(5, 6, bent=0.0).log_prob(z), FamilyPrior(GaussianLatents()).log_prob(z))


def test_the_density_of_a_flow_sums_to_one() -> None:
    flow = _flow(2, 5, bent=0.03).double()
    side = torch.linspace(-12, 12, 301, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    with torch.no_grad():
        total = flow.log_prob(grid).exp().sum() * (side[1] - side[0]) ** 2
    assert abs(total.item() - 1) < 1e-3


@pytest.mark.parametrize("latent_size", [2, 3, 7])
def test_the_density_of_a_flow_is_the_one_of_its_noise_by_autograd(latent_size: int) -> None:
    """log p(g(u)) = log N(u) - log |det dg/du|, with g as `sample` applies it and its Jacobian by autograd."""
    flow = _flow(latent_size, 4, bent=0.1, seed=1).double()

    def g(u: Tensor) -> Tensor:
        for coupling in flow.couplings:
            shift, log_scale = coupling.shift_and_log_scale(u)
            u = u * log_scale.exp() + shift
        return u

    like = torch.zeros(1, latent_size, dtype=torch.float64)
    with drawing(generator("cpu", "z")):
        z = flow.sample(like)[0]
    with drawing(generator("cpu", "z")):
        u = flow.base.sample(like)[0]
    torch.testing.assert_close(g(u), z)
    assert not torch.allclose(u, z)
    jacobian = torch.autograd.functional.jacobian(g, u)
    expected = flow.base.log_prob(u) - torch.linalg.slogdet(jacobian).logabsdet
    torch.testing.assert_close(flow.log_prob(z), expected)


def test_every_variable_of_a_flow_moves() -> None:
    for latent_size in (2, 3, 50):
        stays = torch.stack([coupling.stays for coupling in _flow(latent_size, 2, bent=0.0).couplings])
        assert (stays.sum(0) == 1).all()


def test_a_flow_keeps_full_precision_under_autocast() -> None:
    flow = _flow(4, 2, bent=1.0)
    z = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = flow.log_prob(z)
    torch.testing.assert_close(under, flow.log_prob(z), rtol=0, atol=0)


def test_a_learned_prior_needs_a_sampled_rate() -> None:
    with pytest.raises(InputError, match="rate=sampled"):
        Recipe(prior_layers=4)
    with pytest.raises(InputError, match="latents=gaussian"):
        changed(Recipe(rate="sampled"), ["prior_layers=2", "latents=bernoulli"])
    for setting in ("bound=false", "estimator=score"):
        with pytest.raises(InputError, match="nothing would teach the prior"):
            changed(Recipe(rate="sampled", samples=2), ["prior_layers=2", setting])


def _with_flow() -> tuple[MaxMarginDGM, Tensor, Tensor, Tensor]:
    """The factor analysis of other tests under a bent prior; x, log p(x) and E[x] by sums over a grid of z."""
    made, x, _ = factor_analysis()
    made.recipe = replace(made.recipe, prior_layers=3, rate="sampled")
    made.prior = _flow(2, 3, bent=0.05, seed=2).double()
    side = torch.linspace(-9, 9, 201, dtype=torch.float64)
    z = torch.cartesian_prod(side, side)
    assert made.generative is not None
    log_cell = made.prior.log_prob(z) + 2 * (side[1] - side[0]).log()
    p = made.generative(z.unsqueeze(1))
    exact = torch.stack([(log_cell + p.log_prob(one)[:, 0].sum(-1)).logsumexp(0) for one in x])
    return made, x, exact, (log_cell.exp().unsqueeze(-1) * p.mean[:, 0]).sum(0)


@torch.no_grad()
def test_under_a_learned_prior_bound_and_importance_weights_are_of_that_prior() -> None:
    made, x, exact, _ = _with_flow()
    standard = factor_analysis()[2]
    assert (exact - standard).abs().mean() > 0.1
    D, R = bound_terms(made, rows(x), 200, generator("cpu", 0))
    weighted = [importance_weighted(made, rows(x), K, generator("cpu", 1)) for K in (10, 1000)]
    gaps = [(exact - found).mean().item() for found in (-(D + R), *weighted)]
    assert gaps[0] > gaps[1] > abs(gaps[2])
    assert abs(gaps[2]) < 0.02
    side = torch.linspace(-9, 9, 201, dtype=torch.float64)
    z = torch.cartesian_prod(side, side).unsqueeze(1)
    log_q = made.recognition(x, torch.ones_like(x, dtype=torch.bool)).q.log_prob(z).sum(-1)
    exact_R = (log_q.exp() * (log_q - made.prior.log_prob(z))).sum(0) * (side[1] - side[0]) ** 2
    torch.testing.assert_close(R.mean(), exact_R.mean(), atol=0.1, rtol=0)
    other_D, other_R = terms(made, rows(x), 2000, seed=1)
    torch.testing.assert_close(other_D.mean(), D.mean(), atol=0.25, rtol=0)
    torch.testing.assert_close(other_R.mean(), R.mean(), atol=0.25, rtol=0)


@torch.no_grad()
def test_samples_come_from_the_learned_prior() -> None:
    made, _, _, mean = _with_flow()
    x = torch.from_numpy(sample(made, 20_000, seed=0)).double()
    error = x.std(0) / math.sqrt(len(x))
    assert ((x.mean(0) - mean).abs() < 5 * error).all()
    assert (mean - torch.tensor([0.3, -0.2, 0.1])).abs().max() > 0.1  # where N(0, I) would have it


def test_the_recipe_s_layers_are_learned_with_the_rest() -> None:
    recipe = replace(recipe_named("mmva-mnist"), data="digits", epochs=2, batch_size=100, adversary=0.0)
    trained = train(replace(recipe, prior_layers=3, rate="sampled"), seed=0)
    assert trained is not None
    prior = trained.model.prior
    assert isinstance(prior, FlowPrior)
    assert len(prior.couplings) == 3
    assert all(coupling.head.weight.abs().max() > 1e-4 for coupling in prior.couplings)
    other = train(recipe, seed=0)
    assert other is not None
    assert isinstance(other.model.prior, FamilyPrior)
