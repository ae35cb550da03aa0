"""The estimators: what they take, what they give, and what they say of bad input."""

import pickle
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import mmdgm
from mmdgm import MaxMarginDGM, MaxMarginDGMClassifier
from mmdgm.errors import InputError
from mmdgm.estimator import documentation

Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


def blobs(n: int = 120, seed: int = 0, holes: float = 0.1) -> Rows:
    """Three classes far apart in four columns, some entries missing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = 4.0 * rng.normal(size=(3, 4))[y] + rng.normal(size=(n, 4))
    X[rng.random(X.shape) < holes] = np.nan
    return X, y


def people(n: int = 120, seed: int = 0) -> tuple[pd.DataFrame, NDArray[Any]]:
    """A table with columns of every kind, with holes, and a class that three of them tell."""
    rng = np.random.default_rng(seed)
    size, kind = rng.normal(10, 3, n), rng.choice(["p", "q", "r"], n)
    frame = pd.DataFrame(
        {
            "size": size,
            "pay": np.exp(rng.normal(3, 1, n)),
            "on": rng.random(n) < 0.5,
            "kind": pd.Categorical(kind),
            "town": rng.choice(["a", "b"], n),
        }
    )
    y = np.where(size + 4 * (kind == "p") > 11, "yes", "no")
    frame.loc[0, "size"], frame.loc[1, "kind"], frame.loc[2, "town"], frame.loc[3, "pay"] = [np.nan, None, None, np.nan]
    return frame, y


def quick(**changes: Any) -> MaxMarginDGMClassifier:
    return MaxMarginDGMClassifier(**{"epochs": 30, "random_state": 0, **changes})


@pytest.fixture(scope="module")
def fitted() -> MaxMarginDGMClassifier:
    return quick(epochs=150).fit(*blobs())


@pytest.fixture(scope="module")
def of_people() -> MaxMarginDGMClassifier:
    return quick(epochs=80, columns={"pay": "positive"}).fit(*people())


def test_rows_with_holes_are_classified(fitted: MaxMarginDGMClassifier) -> None:
    X, y = blobs()
    assert fitted.score(X, y) > 0.95
    assert list(fitted.classes_) == [0, 1, 2]
    assert fitted.n_features_in_ == 4
    assert fitted.n_iter_ == 150


def test_the_same_seed_gives_the_same_estimator_bit_for_bit() -> None:
    X, y = blobs()
    first = quick().fit(X, y).predict_proba(X)
    assert np.array_equal(quick().fit(X, y).predict_proba(X), first)
    assert not np.array_equal(quick(random_state=1).fit(X, y).predict_proba(X), first)


def test_the_order_of_the_rows_does_not_matter() -> None:
    X, y = blobs()
    turned = quick(epochs=3).fit(X[::-1], y[::-1])
    assert np.array_equal(turned.predict_proba(X), quick(epochs=3).fit(X, y).predict_proba(X))


def test_a_row_alone_is_judged_as_among_others(fitted: MaxMarginDGMClassifier) -> None:
    X, _ = blobs()
    one = slice(n := int(np.flatnonzero(np.isnan(X).any(axis=1))[-1]), n + 1)  # a row with a hole
    methods: tuple[Callable[[Any], Any], ...] = (
        fitted.predict_proba, fitted.transform, fitted.impute, fitted.score_samples, fitted.outlier_score,
    )  # fmt: skip
    for method in methods:
        np.testing.assert_allclose(method(X[one]), method(X)[one], rtol=1e-6, atol=1e-7)


def test_probabilities_are_the_scores_at_one_temperature(fitted: MaxMarginDGMClassifier) -> None:
    X, _ = blobs()
    scores, p = fitted.decision_function(X), fitted.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_allclose(
        np.log(p[:, 0] / p[:, 1]), (scores[:, 0] - scores[:, 1]) / fitted.temperature_, atol=1e-6
    )
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), p)


def test_two_classes_have_one_score() -> None:
    X, y = blobs()
    model = quick().fit(X[y < 2], np.array(["b", "a"])[y[y < 2]])
    scores = model.decision_function(X)
    assert scores.ndim == 1
    assert np.array_equal(model.predict(X), model.classes_[(scores > 0).astype(int)])
    assert np.array_equal(scores.argsort(), model.predict_proba(X)[:, 1].argsort())


def test_unlabelled_rows_take_part_in_the_bound_and_not_in_the_classes() -> None:
    X, y = blobs()
    some = np.where(np.arange(len(y)) % 4 == 0, y, -1)
    model = quick(epochs=60).fit(X, some)
    assert list(model.classes_) == [0, 1, 2]
    assert model.score(X, y) > 0.9
    assert not np.allclose(model.transform(X), quick(epochs=60).fit(X[some >= 0], y[some >= 0]).transform(X))


@pytest.mark.parametrize(
    ("labels", "mark", "unlabelled"),
    [("ab", -1, "auto"), ("ab", "?", "?"), ("ab", None, None), ((1.0, 2.0), np.nan, np.nan), ((0, 1), 9, 9)],
)
def test_any_value_may_mean_unlabelled(labels: Any, mark: Any, unlabelled: Any) -> None:
    X, codes = blobs()
    y = np.array([labels[code % 2] for code in codes], dtype=object if isinstance(labels, str) else None)
    y[:10] = mark
    if not isinstance(labels, str):
        y = y.astype(type(labels[0]) if mark == mark else float)
    model = quick(epochs=2, unlabelled=unlabelled).fit(X, y)
    assert model.classes_.tolist() == sorted(labels)


def test_minus_one_and_one_are_two_classes() -> None:
    X, y = blobs()
    assert quick(epochs=2).fit(X, np.where(y == 0, -1, 1)).classes_.tolist() == [-1, 1]
    assert quick(epochs=2).fit(X, np.where(y == 0, -1, y)).classes_.tolist() == [-1, 1, 2][1:]


def test_a_weight_of_two_is_a_row_twice() -> None:
    X, y = blobs(60)
    w = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = quick(epochs=3).fit(X, y, sample_weight=w)
    repeated = quick(epochs=3).fit(X.repeat(w, axis=0), y.repeat(w))
    assert np.array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


def test_tiny_weights_count_in_proportion() -> None:
    X, y = blobs(60)
    model = quick().fit(X, y, sample_weight=np.full(len(y), 1 / len(y)))
    assert np.array_equal(model.predict_proba(X), quick().fit(X, y).predict_proba(X))


def test_a_class_that_counts_more_is_predicted_more() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = rng.normal(size=(200, 2)) + y[:, None]
    plain, heavy = quick(epochs=60).fit(X, y), quick(epochs=60, class_weight={0: 1, 1: 8}).fit(X, y)
    assert heavy.predict(X).sum() > plain.predict(X).sum() + 20
    assert quick(class_weight="balanced", epochs=2).fit(X, y)._class_weights == pytest.approx(
        tuple(len(y) / 2 / np.bincount(y))
    )


def test_holes_are_filled_and_what_is_observed_stays(fitted: MaxMarginDGMClassifier) -> None:
    X, _ = blobs()
    filled, spread = fitted.impute(X, return_spread=True)
    holes = np.isnan(X)
    assert not np.isnan(filled).any()
    assert np.array_equal(filled[~holes], X[~holes])
    assert (spread[holes] > 0).all()
    assert (spread[~holes] == 0).all()


def test_filling_in_beats_the_mean() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 1))
    X = z @ np.array([[1.0, -2.0, 3.0]]) + 0.2 * rng.normal(size=(300, 3)) + 5
    holes = rng.random(X.shape) < 0.2
    model = MaxMarginDGM(latent_size=2, epochs=150, random_state=0).fit(np.where(holes, np.nan, X))
    filled = model.transform(np.where(holes, np.nan, X))
    assert np.square((filled - X)[holes]).mean() < 0.2 * np.square((X.mean(0) - X)[holes]).mean()


def test_how_many_rows_get_random_holes_is_chosen_by_the_first_rows_and_stays() -> None:
    X, y = blobs(holes=0.1)
    whole, labels = blobs(holes=0.0)
    among_holes = quick(epochs=2, warm_start=True).fit(X, y)
    assert among_holes._learned.model.recipe.holes == 0.8
    assert among_holes.fit(whole, labels)._learned.model.recipe.holes == 0.8
    among_whole = quick(epochs=2).partial_fit(whole, labels, classes=np.unique(labels))
    assert among_whole._learned.model.recipe.holes == 0.3
    assert among_whole.partial_fit(X, y)._learned.model.recipe.holes == 0.3
    assert among_whole.set_params(holes=0.5).partial_fit(X, y)._learned.model.recipe.holes == 0.5
    assert quick(epochs=2, holes=0.0).fit(X, y)._learned.model.recipe.holes == 0
    assert MaxMarginDGM(epochs=2).fit(whole)._learned.model.recipe.holes == 0.8


def test_a_model_of_whole_rows_copes_with_holes() -> None:
    X, y = blobs(300, holes=0.0)
    model = MaxMarginDGMClassifier(random_state=0).fit(X[:200], y[:200])
    holed = np.where(np.random.default_rng(1).random(X[200:].shape) < 0.3, np.nan, X[200:])
    holes = np.isnan(holed)
    assert (model.predict(holed) == y[200:]).mean() > 0.85
    error = np.square(model.impute(holed) - X[200:])[holes].mean()
    assert error < 0.6 * np.square(X[:200].mean(0) - X[200:])[holes].mean()


def test_rows_that_come_later_leave_the_factors_as_they_are() -> None:
    X, y = blobs(200)
    model = quick().partial_fit(X[:100], y[:100], classes=np.unique(y))
    first = model._learned.model.recognition.factors
    again = model.partial_fit(X[100:] * [1, 1, -1, -1], y[100:])._learned.model.recognition.factors
    assert first is not None
    assert again is not None
    assert np.array_equal(first.loadings, again.loadings)


def test_a_table_keeps_its_names_kinds_and_types(of_people: MaxMarginDGMClassifier) -> None:
    frame, y = people()
    assert of_people.score(frame, y) > 0.9
    kinds = [column.kind for column in of_people._reader.schema.columns]
    assert kinds == ["real", "positive", "binary", "categorical", "categorical"]
    filled = of_people.impute(frame)
    assert list(of_people.feature_names_in_) == list(frame.columns)
    assert filled.dtypes.equals(frame.dtypes)
    assert not filled.isna().any().any()
    assert filled.iloc[4:].equals(frame.iloc[4:])
    assert filled.loc[1, "kind"] in "pqr"
    assert filled.loc[3, "pay"] > 0
    new = of_people.sample(20, y="yes")
    assert list(new.columns) == list(frame.columns)
    assert (new["pay"] > 0).all()
    assert set(new["kind"]) <= set("pqr")


def test_an_unseen_category_is_treated_as_missing(of_people: MaxMarginDGMClassifier) -> None:
    frame, _ = people()
    strange, missing = frame.iloc[5:8].copy(), frame.iloc[5:8].copy()
    strange["town"], missing["town"] = "nowhere", None
    assert np.array_equal(of_people.decision_function(strange), of_people.decision_function(missing))
    assert (of_people.impute(strange)["town"] == "nowhere").all()


def test_less_than_nothing_in_a_positive_column_is_nothing(of_people: MaxMarginDGMClassifier) -> None:
    table, _ = people()
    less, nothing = table.copy(), table.copy()
    less["pay"], nothing["pay"] = -5.0, 0.0
    assert np.array_equal(of_people.predict_proba(less), of_people.predict_proba(nothing))


def test_columns_of_an_array_by_position() -> None:
    X = np.array([[0.5, "u", 1], [1.5, "v", 0], [np.nan, None, 1], [2.5, "u", 0]] * 10, dtype=object)
    y = np.arange(40) % 2
    model = quick(epochs=5, columns=["real", "categorical", "binary"]).fit(X, y)
    filled = model.impute(X)
    assert filled[2, 1] in ("u", "v")
    assert np.array_equal(filled[0], X[0])
    assert model.predict(X).shape == (40,)


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 3)])
@pytest.mark.parametrize("kind", ["bytes", "float"])
def test_images_of_any_range(shape: tuple[int, ...], kind: str) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X: NDArray[Any] = rng.integers(0, 60, (60, *shape)).astype(np.uint8)
    X[y == 1, :3] += 180
    if kind == "float":
        X = X.astype(np.float64) * 3 - 100
        X[:, 0, 0] = np.nan
    model = quick(epochs=150).fit(X, y)
    assert model.score(X, y) > 0.95
    filled = model.impute(X)
    assert filled.shape == X.shape
    assert filled.dtype == X.dtype
    assert np.array_equal(filled[:, 1:], X[:, 1:])
    made = model.sample(4, y=[0, 1, 0, 1])
    assert made.shape == (4, *shape)
    low, high = np.nanmin(X), np.nanmax(X)
    assert low <= made.min() <= made.max() <= high
    assert made[[1, 3], :3].mean() > made[[0, 2], :3].mean() + 0.15 * (float(high) - low)
    assert model.reconstruct(X).shape == X.shape
    with pytest.raises(ValueError, match="images of shape"):
        model.predict(X[:, :, :4])


def test_samples_may_be_of_a_class(fitted: MaxMarginDGMClassifier) -> None:
    assert fitted.sample(5, y=2).shape == (5, 4)
    assert not np.array_equal(fitted.sample(5, y=2), fitted.sample(5, y=1))
    assert np.array_equal(fitted.sample(3), fitted.sample(3))
    assert fitted.sample(3).shape == (3, 4)
    with pytest.raises(ValueError, match="unknown class '7'"):
        fitted.sample(2, y=7)


def test_what_is_strange_scores_higher(fitted: MaxMarginDGMClassifier) -> None:
    X, _ = blobs(holes=0.0)
    strange = np.random.default_rng(1).normal(size=X.shape) * 30
    for method in ("typicality", "regret", "bound"):
        own, other = fitted.outlier_score(X, method), fitted.outlier_score(strange, method)
        assert (own.max() < other).mean() > 0.8, method
    assert np.median(fitted.score_samples(X)) > np.median(fitted.score_samples(strange))
    with pytest.raises(ValueError, match="method must be"):
        fitted.outlier_score(X, "guess")


@pytest.mark.parametrize("as_what", ["features", "latents", "imputed"])
def test_a_transformer_names_its_columns(as_what: str) -> None:
    frame, y = people()
    model = quick(epochs=2, transform_as=as_what).set_output(transform="pandas")
    found = model.fit(frame, y).transform(frame)
    assert list(found.columns) == list(model.get_feature_names_out())
    if as_what == "imputed":
        assert list(found.columns) == list(frame.columns)
    assert len(found) == len(frame)


def test_a_column_without_values_is_left_out() -> None:
    X, y = blobs()
    X[:, 2] = np.nan
    with pytest.warns(UserWarning, match="Skipping features without any observed values"):
        model = quick(epochs=2, transform_as="imputed").fit(X, y)
    assert np.isnan(model.impute(X)[:, 2]).all()
    assert model.transform(X).shape == (len(X), 3)
    assert list(model.get_feature_names_out()) == ["x0", "x1", "x3"]


def test_training_goes_on_where_it_ended() -> None:
    X, y = blobs()
    once = quick(epochs=3).fit(X, y)
    twice = quick(epochs=3, warm_start=True).fit(X, y)
    first = twice.decision_function(X)
    assert np.array_equal(first, once.decision_function(X))
    twice.fit(X, y)
    assert not np.allclose(first, twice.decision_function(X))
    assert np.array_equal(once.fit(X, y).decision_function(X), first)


def test_what_goes_on_keeps_its_classes() -> None:
    X, y = blobs()
    model = quick(warm_start=True, epochs=5).fit(X, y).fit(X[y < 2], y[y < 2])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(X).shape == (120, 3)
    assert quick(epochs=5).fit(X[y < 2], y[y < 2]).classes_.tolist() == [0, 1]


def test_rows_may_come_in_parts() -> None:
    X, y = blobs(240)
    model = quick()
    for _ in range(10):
        for part in (slice(0, 120), slice(120, 240)):
            model.partial_fit(X[part], y[part], classes=[0, 1, 2])
    assert model.score(X, y) > 0.9
    with pytest.raises(ValueError, match="classes must be passed"):
        quick().partial_fit(X, y)
    with pytest.raises(ValueError, match="not the same as on last call"):
        model.partial_fit(X, y, classes=[0, 1])
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.partial_fit(X, y).predict_proba(X), model.partial_fit(X, y).predict_proba(X))
    stream = MaxMarginDGM(random_state=0).partial_fit(X[:120]).partial_fit(X[120:])
    assert not np.isnan(stream.transform(X)).any()


def test_early_stopping_ends_early_and_holds_rows_out() -> None:
    X, y = blobs()
    model = quick(epochs=400, early_stopping=True, n_iter_no_change=3).fit(X, y)
    assert model.n_iter_ < 400
    assert model.score(X, y) > 0.9
    plain = MaxMarginDGM(epochs=400, early_stopping=True, n_iter_no_change=3, random_state=0).fit(X)
    assert plain.n_iter_ <= 400


@pytest.mark.parametrize("kind", ["array", "table", "images", "plain"])
def test_saving_and_loading_changes_nothing(kind: str, tmp_path: Path) -> None:
    X, y = people() if kind == "table" else blobs()
    if kind == "images":
        X = np.nan_to_num(X).reshape(-1, 2, 2)
    model: Any = MaxMarginDGM(epochs=3, random_state=0).fit(X) if kind == "plain" else quick(epochs=3).fit(X, y)
    model.save(tmp_path / "kept")
    same = type(model).load(tmp_path / "kept")
    assert {path.suffix for path in (tmp_path / "kept").iterdir()} == {".json", ".jsonl", ".safetensors"}
    filled, again = (np.asarray(one.impute(X), dtype=object).tolist() for one in (model, same))
    assert str(filled) == str(again)
    assert same.get_params() == model.get_params()
    if kind != "plain":
        assert np.array_equal(model.predict_proba(X), same.predict_proba(X))
        assert np.array_equal(model.predict(X), same.predict(X))
        assert str(model.sample(3, y=y[0])) == str(same.sample(3, y=y[0]))
        assert same.partial_fit(X, y).predict(X).shape == (len(y),)
    assert np.array_equal(
        model.outlier_score(X, "typicality"), type(model).load(tmp_path / "kept").outlier_score(X, "typicality")
    )
    assert mmdgm.load_run(tmp_path / "kept").recipe.name == "estimator"
    with pytest.raises(InputError, match="load it with"):
        (MaxMarginDGMClassifier if kind == "plain" else MaxMarginDGM).load(tmp_path / "kept")


def test_a_parameter_that_is_no_json_is_not_saved(tmp_path: Path) -> None:
    X, y = blobs()
    model = quick(epochs=1, random_state=np.random.RandomState(0)).fit(X, y)
    with pytest.raises(InputError, match="random_state=.* cannot be saved"):
        model.save(tmp_path / "kept")


def test_pickles_and_clones(fitted: MaxMarginDGMClassifier) -> None:
    X, _ = blobs()
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X), fitted.predict_proba(X))
    assert clone(fitted).get_params() == fitted.get_params()


def test_it_works_in_scikit_learns_tools() -> None:
    X, y = blobs()
    pipe = make_pipeline(FunctionTransformer(), quick(epochs=5))
    assert cross_val_score(pipe, X, y, cv=2).mean() > 0.6
    search = GridSearchCV(quick(epochs=4), {"C": [1.0, 30.0]}, cv=2).fit(X, y)
    assert search.best_params_["C"] in (1.0, 30.0)
    assert CalibratedClassifierCV(quick(epochs=4), cv=2).fit(X, y).predict_proba(X).shape == (len(y), 3)
    assert make_pipeline(MaxMarginDGM(epochs=3), quick(epochs=3)).fit(X, y).predict(X).shape == y.shape


@pytest.mark.parametrize("named", ["https://docs.example/mmdgm", None])
def test_it_links_to_the_documentation_that_the_package_names(
    named: str | None, fitted: MaxMarginDGMClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Message()
    told["Project-URL"] = "Source, https://source.example"
    if named:
        told["Project-URL"] = f"Documentation, {named}"
    monkeypatch.setattr(documentation, "metadata", lambda _: told)
    documentation.address.cache_clear()
    page = fitted._repr_html_inner() if hasattr(fitted, "_repr_html_inner") else fitted._repr_html_()
    documentation.address.cache_clear()
    assert "MaxMarginDGMClassifier" in page
    assert (f'href="{named}"' in page) == bool(named)
    assert "file:" not in page
    assert "source.example" not in page


def test_threads_are_given_back_and_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    before = torch.get_num_threads()
    quick(epochs=2, threads=before + 1, verbose=1).fit(*blobs())
    assert torch.get_num_threads() == before
    assert "MaxMarginDGMClassifier" in capsys.readouterr().err


def _bad() -> list[tuple[str, Callable[[], Any], str]]:
    X, y = blobs(30)
    model = quick(epochs=1)
    words = np.array([["a", "b"], ["c", "d"]] * 15)
    frame, _ = people(30)
    return [
        ("features", lambda: model.fit(X, y).predict(X[:, :2]), "X has 2 features, but .* is expecting 4 features"),
        ("one class", lambda: model.fit(X, np.zeros(30)), "contains only one class: 0.0"),
        ("no label", lambda: model.fit(X, np.full(30, -1)), "y has no label"),
        ("no column", lambda: model.fit(np.full((30, 2), np.nan), y), "X has no observed value"),
        ("texts", lambda: model.fit(words, y), "could not convert string to float"),
        ("C", lambda: clone(model).set_params(C=-1).fit(X, y), "The 'C' parameter of MaxMarginDGMClassifier must be"),
        (
            "share",
            lambda: clone(model).set_params(validation_fraction=1.5).fit(X, y),
            "'validation_fraction' parameter",
        ),
        ("infinite", lambda: model.fit(np.where(X > 3, np.inf, X), y), "Input X contains infinity"),
        ("infinite cell", lambda: model.fit(frame.assign(size=np.inf), y), "Input X contains infinity"),
        ("no rows", lambda: model.fit(X[:0], y[:0]), "Found array with 0 sample"),
        ("no table rows", lambda: model.fit(frame[:0], y[:0]), "Found array with 0 sample"),
        ("lengths", lambda: model.fit(X, y[:5]), "inconsistent numbers of samples"),
        ("no y", lambda: model.fit(X, None), "requires y to be passed"),
        ("kind", lambda: clone(model).set_params(columns={0: "rael"}).fit(X, y), "did you mean 'real'"),
        ("column", lambda: clone(model).set_params(columns={"x9": "real"}).fit(X, y), "unknown column 'x9'"),
        ("kinds", lambda: clone(model).set_params(columns=["real"]).fit(X, y), "columns has 1 kinds"),
        ("negative", lambda: clone(model).set_params(columns=["positive"] * 4).fit(X, y), "Negative values in data"),
        ("binary", lambda: clone(model).set_params(columns={0: "binary"}).fit(X, y), "must have two values"),
        ("names", lambda: model.fit(frame, y).predict(frame[frame.columns[::-1]]), "feature names should match"),
        ("weights", lambda: model.fit(X, y, sample_weight=-np.ones(30)), "Negative values in data"),
    ]


@pytest.mark.parametrize(("call", "message"), [pytest.param(c, m, id=name) for name, c, m in _bad()])
@pytest.mark.filterwarnings("ignore:Skipping features")
def test_bad_input_is_refused_in_scikit_learns_words(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "transform", "impute", "score_samples", "outlier_score"]
)
def test_nothing_is_predicted_before_fit(method: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(quick(), method)(blobs()[0])


def test_importing_the_package_is_still_free() -> None:
    assert "MaxMarginDGMClassifier" in dir(mmdgm)
