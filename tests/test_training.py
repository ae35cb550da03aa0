"""Laws that hold for every recipe, and what a run promises: stopping, resuming, choosing, refusing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mmdgm import api
from mmdgm.data.batches import resident
from mmdgm.data.dataset import UNKNOWN, Dataset
from mmdgm.data.splits import split
from mmdgm.errors import InputError, WorkError
from mmdgm.gradients import estimate, observe
from mmdgm.objective import Objective
from mmdgm.optimisation import Average, learning_rate
from mmdgm.recipes import RECIPES, Recipe
from mmdgm.runs import RunFolder
from mmdgm.runtime import Runtime, choose_runtime, generator
from mmdgm.trained import Trained
from mmdgm.training import Trainer, build_model
from tests.conftest import PLAIN, images, small, table

SHRUNK = {"hidden": (16, 12), "generative_hidden": (8,), "latent_size": 4, "epochs": 2, "batch_size": 20}


SHRUNK_CONVOLUTIONS = {
    "convolutions": ("3x3:pool:drop", "3x4:drop"), "generative_convolutions": ("3x3:up", "3xout"), "hidden": (12,)
}  # fmt: skip


def data_for(recipe: Recipe) -> Dataset:
    if recipe.likelihood == "columns":
        return table()
    if recipe.convolutions:
        return images(shape=(6, 8, 3) if recipe.data == "svhn" else (6, 8))
    return images()


def shrunk(name: str) -> Recipe:
    recipe = RECIPES[name]()
    if recipe.convolutions:
        kept = {k: v for k, v in SHRUNK_CONVOLUTIONS.items() if getattr(recipe, k)}
        return replace(recipe, **{**SHRUNK, "hidden": (), **kept})  # type: ignore[arg-type]
    changes = {k: v for k, v in SHRUNK.items() if recipe.hidden or "hidden" not in k}
    return replace(recipe, **changes)  # type: ignore[arg-type]


VARIANTS = {
    **{name: shrunk(name) for name in RECIPES},
    "gaussian-fixed": small(likelihood="gaussian-fixed"),
    "gaussian-shared": small(likelihood="gaussian-shared"),
    "gaussian": small(likelihood="gaussian", features="last", activation="silu"),
    "latent features": small(features="latents", expected_features="sampled", samples=3, activation="tanh"),
    "everything": small(
        normalise=True, dropout=0.2, input_dropout=0.1, feature_dropout=0.5, ema=0.9, clip=1.0, adversary=0.5,
        schedule="thirds", constant_share=0.5, pretraining_epochs=1, select="best", weight_decay=0.1, warp=0.5,
    ),
    "learned baseline": small(latents="bernoulli", estimator="score", baseline="learned", rate="sampled"),
    "sgd": small(optimiser="sgd", learning_rate=1e-3),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_every_recipe_trains_saves_loads_and_speaks(name: str, tmp_path: Path) -> None:
    recipe = VARIANTS[name]
    data = data_for(recipe)
    trained = api.train(recipe, data, seed=1, out=tmp_path / "run", runtime=PLAIN)
    assert trained is not None
    loaded = api.load_run(tmp_path / "run")
    for key, value in trained.model.state_dict().items():
        assert torch.equal(value, loaded.model.state_dict()[key])
        assert value.isfinite().all()
    if recipe.classifies:
        assert set(loaded.predict(data.x)) <= set(data.classes)
        assert loaded.decision_values(data.x).shape == (len(data), len(data.classes))
    if recipe.bound:
        rows = loaded.sample(5, seed=3)
        assert rows.shape == (5, *data.x.shape[1:])
        np.testing.assert_array_equal(rows, loaded.sample(5, seed=3))
        assert not np.array_equal(rows, loaded.sample(5, seed=4))
        assert loaded.sample(2, draw=True).shape == (2, *data.x.shape[1:])
        assert loaded.reconstruct(data.x[:3]).shape == (3, *data.x.shape[1:])
    figures = loaded.evaluate(data, importance_samples=5)
    assert (figures.error_percent is None) == (not recipe.classifies)
    assert (figures.bound_nats is None) == (not recipe.bound)


@pytest.mark.parametrize("name", VARIANTS)
def test_gradients_reach_every_weight(name: str) -> None:
    recipe = VARIANTS[name]
    splits = split(data_for(recipe), "whole", 0)
    model = build_model(recipe, splits.train, 0)
    key = generator("cpu", 0)
    with torch.no_grad():  # the classifier starts at 0, where nothing flows through it
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=key))
    rows = resident(splits.train, torch.device("cpu")).between(0, 50)
    noise = model.draw_noise(50, key)
    objective = Objective(max(recipe.C, 1.0), 10.0, 1.0, 50)
    estimate(model, observe(model, rows, noise), noise, objective).surrogate.backward()
    unreached = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    if not recipe.bound:
        unreached = [n for n in unreached if not n.startswith("recognition.head")]
    assert unreached == []


def test_what_is_missing_carries_no_cost_and_no_information() -> None:
    recipe = replace(VARIANTS["mmva-table"], dropout=0.0)
    splits = split(table(), "whole", 0)
    model = build_model(recipe, splits.train, 0).eval()
    rows = resident(splits.train, torch.device("cpu"))
    assert (rows.x[~rows.observed] == 0).all()
    noise = model.draw_noise(len(rows.x), generator("cpu", 0))
    objective = Objective(1.0, 1.0, 1.0, len(rows.x))
    other = rows._replace(observed=torch.zeros_like(rows.observed))
    assert estimate(model, other, noise, objective).terms.distortion == 0
    assert estimate(model, rows, noise, objective).terms.distortion > 0


def interrupted_after(steps: int) -> Callable[[], bool]:
    calls = iter(range(10**9))
    return lambda: next(calls) >= steps


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("stop_at", [(0,), (2,), (3, 2, 1), (5,)])
def test_a_stopped_run_goes_on_bit_for_bit(stop_at: tuple[int, ...], compile: bool, tmp_path: Path) -> None:
    """133 training rows, 50 a batch: two steps an epoch, so that 3 and 5 are within one, 2 is between two."""
    if compile and stop_at != (3, 2, 1):
        pytest.skip("once is enough: compiling is slow")
    recipe, runtime = replace(VARIANTS["everything"], epochs=4), replace(PLAIN, compile=compile)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    np.savez(tmp_path / "data.npz", x=images().x, y=images().y)
    data = str(tmp_path / "data.npz")
    assert api.train(recipe, data, 5, whole, runtime) is not None
    assert api.train(recipe, data, 5, parts, runtime, should_stop=interrupted_after(stop_at[0])) is None
    for steps in stop_at[1:]:
        assert api.resume(parts, should_stop=interrupted_after(steps)) is None
    assert api.resume(parts) is not None
    one, other = RunFolder.open(whole), RunFolder.open(parts)
    assert one.weights_sha256 == other.weights_sha256
    without_time = lambda lines: [{k: v for k, v in line.items() if k != "seconds"} for line in lines]  # noqa: E731
    assert without_time(one.metrics) == without_time(other.metrics)
    assert api.resume(parts) is not None  # finished: nothing is left to do


def test_same_seed_same_run_and_another_seed_another() -> None:
    def weights(seed: int) -> dict[str, Any]:
        state = Trainer(small(dropout=0.1), split(images(), "paper", 0), seed, PLAIN).run()
        assert state is not None
        return state.best

    one, same, other = weights(1), weights(1), weights(2)
    assert all(torch.equal(one[k], same[k]) for k in one)
    assert not torch.equal(one["classifier.linear.weight"], other["classifier.linear.weight"])


def test_it_learns() -> None:
    data = images(600)
    recipe = small(epochs=30, likelihood="bernoulli", ema=0.9)
    trained = api.train(recipe, data, runtime=PLAIN)
    assert trained is not None
    figures = trained.evaluate(images(300, seed=9))
    assert figures.error_percent is not None
    assert figures.error_percent < 2
    untrained = Trained(build_model(recipe, split(data, "paper", 0).train, 0), data.classes)
    before = untrained.evaluate(images(300, seed=9)).bound_nats
    assert figures.bound_nats is not None
    assert before is not None
    assert figures.bound_nats > before + 3


def test_unlabelled_rows_train_like_any_others() -> None:
    data = images(600)
    some = data.y.copy()
    some[60:] = UNKNOWN
    trained = api.train(small(epochs=30), replace(data, y=some), runtime=PLAIN)
    assert trained is not None
    assert (trained.predict(data.x) == np.array(data.classes)[data.y]).mean() > 0.9


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_weights(tmp_path: Path) -> None:
    recipe = small(likelihood="gaussian-fixed", learning_rate=1e30, schedule="constant", warmup_share=0.0, epochs=5)
    with pytest.raises(
        WorkError, match=r"(distortion|rate|hinge|objective) is not a finite.*epoch 1, step 2.*learning_rate"
    ):
        api.train(recipe, images(), out=tmp_path / "run", runtime=PLAIN)
    assert all(v.isfinite().all() for v in RunFolder.open(tmp_path / "run").weights().values())


def test_the_best_epoch_is_kept() -> None:
    seen: list[float] = []

    def note(line: dict[str, Any]) -> None:
        seen.append(line["valid_error_percent"])

    trainer = Trainer(small(select="best", epochs=8), split(images(), "paper", 0), 0, PLAIN, on_metrics=note)
    state = trainer.run()
    assert state is not None
    assert state.best_epoch == 1 + seen.index(min(seen))


def test_the_best_epoch_needs_rows_to_judge_by() -> None:
    data = images(12, classes=3)
    unlabelled = replace(data, y=np.full(12, UNKNOWN))
    parts = split(data, "paper", 0)
    for valid in (parts.valid.take(slice(0, 0)), split(unlabelled, "paper", 0).valid):
        with pytest.raises(InputError, match="needs labelled validation rows; the data leave none"):
            Trainer(small(select="best"), replace(parts, valid=valid), 0, PLAIN)


def test_a_run_starts_from_another_ones_recognition_network(tmp_path: Path) -> None:
    cnn = shrunk("cnn-svhn")
    data = data_for(cnn)
    first = api.train(cnn, data, out=tmp_path / "cnn", runtime=PLAIN)
    assert first is not None
    recipe = replace(shrunk("cmmva-svhn"), epochs=1, learning_rate=1e-12)
    second = api.train(recipe, data, out=tmp_path / "cmmva", runtime=PLAIN, init_from=tmp_path / "cnn")
    assert second is not None
    for one, other in zip(
        first.model.recognition.network.parameters(), second.model.recognition.network.parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
    origin = RunFolder.open(tmp_path / "cmmva").description["init_from"]
    weights = RunFolder.open(tmp_path / "cnn").weights_sha256
    assert origin == {"recipe": "cnn-svhn", "seed": 0, "weights_sha256": weights}
    with pytest.raises(InputError, match=r"--init-from.*needs weights of shape.*same convolutions"):
        api.train(replace(recipe, convolutions=("3x5:pool",)), data, runtime=PLAIN, init_from=tmp_path / "cnn")


def test_contrast_is_given_back_to_reconstructions() -> None:
    recipe = replace(shrunk("cmmva-svhn"), transform="local", epochs=1)
    data = data_for(recipe)
    trained = api.train(recipe, data, runtime=PLAIN)
    assert trained is not None
    brighter = np.clip(data.x.astype(int) // 2 + 100, 0, 255).astype(np.uint8)
    dim, bright = trained.reconstruct(data.x[:5]), trained.reconstruct(brighter[:5])
    assert 0 < dim.mean() < bright.mean() < 1


def test_weights_that_are_no_numbers_are_never_kept(tmp_path: Path) -> None:
    """One step, one epoch: no later loss would tell."""
    recipe = small(learning_rate=1e38, schedule="constant", warmup_share=0.0, epochs=1, batch_size=133)
    with pytest.raises(WorkError, match=r"a weight is not a finite.*epoch 1, step 1.*after epoch 0 are kept"):
        api.train(recipe, images(), out=tmp_path / "run", runtime=PLAIN)
    assert all(v.isfinite().all() for v in RunFolder.open(tmp_path / "run").weights().values())


def test_a_run_on_rows_in_memory_goes_on_with_the_same_rows(tmp_path: Path) -> None:
    assert api.train(small(), images(), out=tmp_path / "run", runtime=PLAIN, should_stop=interrupted_after(1)) is None
    with pytest.raises(InputError, match="have changed since"):
        api.resume(tmp_path / "run", images(seed=1))
    assert api.resume(tmp_path / "run", images()) is not None


def test_pretraining_has_no_hinge_in_its_gradient() -> None:
    trainer = Trainer(small(pretraining_epochs=2, epochs=3), split(images(), "paper", 0), 0, PLAIN)
    for _ in range(2):
        trainer._epoch()
    assert trainer.state.model.classifier.linear.weight.abs().sum() == 0
    trainer._epoch()
    assert trainer.state.model.classifier.linear.weight.abs().sum() > 0


def test_schedules_by_hand() -> None:
    recipe = small(learning_rate=9.0, warmup_share=0.0)
    constant, thirds = (
        replace(recipe, schedule="constant"),
        replace(recipe, schedule="thirds", constant_share=0.5),
    )
    assert [learning_rate(constant, s, 100, 10) for s in (0, 99)] == [9, 9]
    assert [learning_rate(thirds, s, 100, 10) for s in (0, 50, 51, 55, 56)] == pytest.approx([9, 9, 3, 3, 1])
    assert learning_rate(recipe, 1, 101, 10) == 9  # cosine begins at its top
    assert learning_rate(recipe, 51, 101, 10) == pytest.approx(4.5)
    assert learning_rate(recipe, 101, 101, 10) == pytest.approx(0, abs=1e-9)
    slow = replace(recipe, warmup_share=0.1)
    assert [learning_rate(slow, s, 100, 10) for s in (0, 4)] == pytest.approx([0.9, 4.5])
    pegasos = replace(recipe, optimiser="sgd", schedule="pegasos", weight_variance=2.0)
    assert [learning_rate(pegasos, s, 100, 10) for s in (0, 3, 9)] == pytest.approx([9, 5, 2])  # 2 * 10 / t, at most 9


def test_the_average_moves_as_single_steps_would() -> None:
    model = build_model(small(), split(images(), "whole", 0).train, 0)
    average = Average(model, 0.9)
    start = model.classifier.linear.weight.clone()
    with torch.no_grad():
        model.classifier.linear.weight.add_(1.0)
    for step in range(1000, 1013):
        average.update(model, step, 1013)
    torch.testing.assert_close(average.model.classifier.linear.weight, start + (1 - 0.9**13))


@pytest.mark.parametrize("epochs", [1, 4])
def test_a_short_run_has_an_average_that_moved(epochs: int) -> None:
    """Three steps an epoch: one epoch is shorter than the intervals at which the average moves, four are not."""
    data = split(images(160), "paper", 0)
    trainer = Trainer(small(ema=0.9, epochs=epochs, batch_size=33), data, 0, PLAIN)
    start = trainer.state.model.recognition.head.weight.clone()
    state = trainer.run()
    assert state is not None
    last = state.model.recognition.head.weight
    assert (state.best["recognition.head.weight"] - start).norm() > 0.3 * (last - start).norm()


def test_two_trainings_cannot_share_a_folder(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=images().x, y=images().y)
    data = str(tmp_path / "data.npz")
    assert api.train(small(), data, out=tmp_path / "run", runtime=PLAIN, should_stop=interrupted_after(1)) is None
    with (
        RunFolder.open(tmp_path / "run").lock(),
        pytest.raises(InputError, match="another process is training"),
    ):
        api.resume(tmp_path / "run")
    with pytest.raises(InputError, match="must be a new or an empty folder"):
        api.train(small(), data, out=tmp_path / "run", runtime=PLAIN)


def test_resuming_on_changed_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x=images().x, y=images().y)
    assert api.train(small(), str(path), out=tmp_path / "run", runtime=PLAIN, should_stop=interrupted_after(1)) is None
    np.savez(path, x=images(seed=1).x, y=images(seed=1).y)
    with pytest.raises(InputError, match="have changed since"):
        api.resume(tmp_path / "run")


@pytest.mark.parametrize(
    ("recipe", "data", "message"),
    [
        (small(likelihood="bernoulli"), table(), "likelihood=bernoulli needs values in"),
        (small(likelihood="columns"), images(), "likelihood=columns is for tables"),
        (small(), replace(images(), classes=(), y=np.full(200, UNKNOWN)), "C=15 and needs labels"),
        (small(latents="gausian"), images(), "did you mean 'gaussian'"),
        (small(warp=1.0, likelihood="columns"), table(), "warp is for images without holes"),
        (small(latents="bernoulli"), images(), "cannot be reparameterised"),
        (small(), images(classes=1), "needs two or more classes; the data have only 'a'"),
    ],
)
def test_what_does_not_fit_together_is_said_before_anything_is_written(
    recipe: Recipe, data: Dataset, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        api.train(recipe, data, out=tmp_path / "run", runtime=PLAIN)
    assert not (tmp_path / "run").exists()


def test_bad_rows_are_refused_by_name() -> None:
    trained = api.train(small(epochs=1), images(), runtime=PLAIN)
    assert trained is not None
    with pytest.raises(InputError, match=r"rows of 30 values.*\(2, 7\)"):
        trained.predict(np.zeros((2, 7)))
    with pytest.raises(InputError, match="finite"):
        trained.predict(np.full((2, 30), np.inf))
    with pytest.raises(InputError, match="one or more rows"):
        trained.predict(np.zeros((0, 30)))
    with pytest.raises(InputError, match="bytes.*from 0 to 200"):
        trained.predict(np.full((2, 30), 200) * np.array([[0], [1]]))
    with pytest.raises(InputError, match="must hold numbers"):
        trained.predict(np.array([["a"] * 30]))
    with pytest.raises(InputError, match="at least 1"):
        trained.sample(0)
    with pytest.raises(InputError, match="6 x 5 images.*3 columns"):
        trained.evaluate(table())
    assert len(trained.predict(np.full((2, 30), np.nan))) == 2  # all missing has an answer: the classifier's prior


def test_a_new_table_is_read_in_the_runs_own_terms() -> None:
    """Levels and labels in another order, and a level never seen (a hole), mean the same to the model."""
    data = table()
    trained = api.train(replace(VARIANTS["mmva-table"], epochs=5), data, runtime=PLAIN)
    assert trained is not None
    column = replace(data.schema.columns[2], levels=("r", "new", "p", "q"))
    schema = replace(data.schema, columns=(*data.schema.columns[:2], column))
    x = data.x.copy()
    x[:, 2] = np.array([2, 3, 0, np.nan])[np.where(np.isnan(x[:, 2]), 3, x[:, 2]).astype(int)]
    other = Dataset("other", x, 1 - data.y, ("yes", "no"), schema)
    assert trained.evaluate(other).error_percent == trained.evaluate(data).error_percent
    assert trained.evaluate(other).bound_nats == trained.evaluate(data).bound_nats


def test_runtime_is_what_was_asked_for_or_the_best_there_is() -> None:
    assert choose_runtime("cpu", "float32", False) == Runtime("cpu", "float32", False)
    assert choose_runtime("cpu", operations=1e9).compile is False
    with pytest.raises(InputError, match="bf16 or float32; got 'int8'"):
        choose_runtime("cpu", "int8")
    with pytest.raises(InputError, match="device 'cuda:77' cannot be used here"):
        choose_runtime("cuda:77")


def test_a_folder_named_like_a_data_set_does_not_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert api.train(small(epochs=1), "digits", out=tmp_path / "run", runtime=PLAIN) is not None
    assert RunFolder.open(tmp_path / "run").description["data"]["name"] == "digits"
    assert api.evaluate_run(tmp_path / "run")["data"] == "digits"
