"""scikit-learn's own checks of an estimator, whole: none is expected to fail, none is left out."""

import warnings
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from mmdgm import MaxMarginDGM, MaxMarginDGMClassifier

FAST = [MaxMarginDGMClassifier(epochs=12), MaxMarginDGM(epochs=6)]
"""Their networks learn for long enough to pass; all else is the default."""


@parametrize_with_checks(FAST)  # type: ignore[untyped-decorator]
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks provoke warnings on purpose
        check(estimator)


@pytest.mark.parametrize(("estimator", "least"), [(FAST[0], 65), (FAST[1], 45)])
def test_there_are_as_many_checks_as_the_estimators_can_do(estimator: Any, least: int) -> None:
    assert len(list(estimator_checks_generator(estimator))) >= least


def test_tags_say_what_the_estimators_take() -> None:
    for estimator in FAST:
        tags = estimator.__sklearn_tags__()
        assert tags.input_tags.allow_nan
        assert tags.input_tags.three_d_array
        assert not tags.no_validation
        assert not tags.non_deterministic
        assert not tags._skip_test
