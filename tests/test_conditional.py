"""Class-conditional models, and models on the features of others."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mmdgm import api
from mmdgm.data.dataset import UNKNOWN, Dataset
from mmdgm.data.files import load_file
from mmdgm.data.splits import split
from mmdgm.errors import InputError
from mmdgm.model import class_evidence, initialised
from mmdgm.networks import Linear
from mmdgm.trained import Trained
from tests.conftest import COLUMNS, PLAIN, images, small, table

CONDITIONAL = {"conditional": True, "C": 0.0}


def trained_on(data: Dataset, **changes: object) -> Trained:
    made = api.train(small(**changes), data, 0, None, PLAIN)
    assert made is not None
    return made


def test_the_evidence_of_a_class_is_a_formula_where_p_is_linear_and_gaussian() -> None:
    """p(x | z, y) = N(W z + U y + b, I), so p(x | y) = N(U y + b, I + W W^T); q is the true posterior."""
    recipe = small(hidden=(), generative_hidden=(), latent_size=2, likelihood="gaussian-fixed", **CONDITIONAL)
    made = initialised(recipe, COLUMNS, 4, 0).double()
    assert made.generative is not None
    assert isinstance(made.generative.output, Linear)
    # a diagonal q is the true posterior if the columns of W are orthogonal; then every sample of z gives log p(x | y)
    W = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, -0.7]], dtype=torch.float64)
    U = torch.tensor([[0.0, 1.0, 2.0, 0.0], [0.0, 0.0, -1.0, 3.0], [0.5, 0.0, 0.0, 1.0]], dtype=torch.float64)
    b = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64)
    covariance = torch.linalg.inv(torch.eye(2) + W.T @ W)
    P = covariance @ W.T
    with torch.no_grad():
        made.generative.output.weight.copy_(torch.cat([W, U], dim=1))
        made.generative.output.bias.copy_(b)
        made.recognition.head.weight.zero_()
        made.recognition.head.weight[:2] = torch.cat([P, -P @ U], dim=1)
        made.recognition.head.bias.copy_(torch.cat([-P @ b, covariance.diagonal().log()]))
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = class_evidence(made, x, torch.ones_like(x, dtype=torch.bool))
    for y in range(4):
        p = torch.distributions.MultivariateNormal(b + U[:, y], torch.eye(3).double() + W @ W.T)
        torch.testing.assert_close(found[:, y], p.log_prob(x))


def test_it_tells_classes_apart_and_draws_the_one_that_is_wished() -> None:
    data = images(400)
    made = trained_on(data, epochs=60, likelihood="bernoulli", hidden=(32,), ema=0.9, **CONDITIONAL)
    assert (made.predict(data.x) == np.array(data.classes)[data.y]).mean() > 0.95
    for code, label in enumerate(made.classes):
        rows = made.sample(50, seed=1, label=label).mean(axis=(0, 2))
        assert rows.argsort()[-2:].tolist() in ([2 * code, 2 * code + 1], [2 * code + 1, 2 * code])
    every = made.sample(6, seed=1)  # the classes in turn
    np.testing.assert_array_equal(every[1], made.sample(6, seed=1, label="b")[1])


def test_what_a_conditional_model_cannot_do_is_said() -> None:
    data = images(60)
    made = trained_on(data, **CONDITIONAL)
    with pytest.raises(InputError, match="conditional: it is told the class, and cannot impute"):
        made.impute(np.where(np.arange(30).reshape(6, 5) < 9, np.nan, data.x[:2] / 255))
    with pytest.raises(InputError, match="what it says of a row depends on the class"):
        made.transform(data.x)
    with pytest.raises(InputError, match="unknown class 'd'"):
        made.sample(3, label="d")
    with pytest.raises(InputError, match="is not conditional"):
        trained_on(data, C=1.0).sample(3, label="a")
    data.y[0] = UNKNOWN
    with pytest.raises(InputError, match="needs a label for every training row"):
        trained_on(data, split="whole", **CONDITIONAL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conditional": True, "C": 1.0}, "conditional=true needs C=0"),
        ({"conditional": True, "C": 0.0, "convolutions": ("3x2",)}, "fully connected recognition networks"),
        ({"conditional": True, "C": 0.0, "adversary": 1.0}, "no margin to ask for near x"),
    ],
)
def test_what_does_not_go_with_conditional(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(**changes)


def test_unlabelled_rows_are_looked_at_as_the_class_that_is_predicted() -> None:
    data = images(100)
    made = trained_on(data, **CONDITIONAL)
    predicted = made.decision_values(data.x).argmax(1)
    known = made.evaluate(Dataset("p", data.x, predicted, data.classes, data.schema))
    unknown = made.evaluate(Dataset("u", data.x, np.full(100, UNKNOWN), data.classes, data.schema))
    assert known.bound_nats == unknown.bound_nats
    assert unknown.error_percent is None
    assert "given y" in unknown.protocol["bound"]


def test_features_and_latents_are_what_the_model_reads(tmp_path: Path) -> None:
    data = images(50)
    made = trained_on(data, C=1.0)
    features, latents = made.transform(data.x), made.transform(data.x, "latents")
    assert features.shape == (50, 28)
    assert latents.shape == (50, 4)
    linear = made.model.classifier.linear
    scores = features @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
    np.testing.assert_allclose(scores, made.decision_values(data.x), atol=1e-5)


def test_an_embedding_keeps_rows_labels_and_the_official_split(tmp_path: Path) -> None:
    data = images(90)
    np.savez(tmp_path / "d.npz", x=data.x, y=np.array(data.classes)[data.y], official_test=20, official_valid=10)
    api.train(small(C=0.0), str(tmp_path / "d.npz"), 0, tmp_path / "run", PLAIN)
    content, shape = api.embed_run(tmp_path / "run")
    (tmp_path / "f.npz").write_bytes(content)
    loaded = load_file(tmp_path / "f.npz")
    assert shape == loaded.x.shape == (90, 28)
    assert (loaded.official_test, loaded.official_valid) == (20, 10)
    np.testing.assert_array_equal(loaded.y, data.y)
    assert [len(part) for part in vars(split(loaded, "paper", 0)).values()] == [60, 10, 20]
    made = api.load_run(tmp_path / "run")
    np.testing.assert_allclose(loaded.x, made.transform(data.x), atol=1e-6)


def test_official_rows_that_leave_none_to_learn_from_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=images(5).x, official_test=5)
    with pytest.raises(InputError, match="leave no row for training"):
        load_file(tmp_path / "d.npz")


def test_a_conditional_model_of_a_table() -> None:
    data = table()
    made = trained_on(data, epochs=40, likelihood="columns", **CONDITIONAL)
    assert made.evaluate(data).error_percent is not None
    assert set(made.predict(data.x)) <= {"no", "yes"}
    assert (made.predict(data.x) == np.array(data.classes)[data.y]).mean() > 0.7
