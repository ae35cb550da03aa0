"""How well outlier scores tell images of clothes from digits and digits from clothes, without having seen the others.

The estimator is trained on one of the two sets, without labels, and scores test images of both. AUROC is the
probability that a strange image scores higher than a normal one. An all-black image is scored, too: the plain bound
calls it normal, since nothing is simpler.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mmdgm.data.sources import load

METHODS = ("typicality", "regret", "bound")
_PAIR = ("mnist", "fashion-mnist")


def bench_outliers(rows: int, training_rows: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """AUROC of every score, both ways, and where an all-black image stands."""
    from mmdgm.runtime import machine, versions

    return {
        "bench": "outliers",
        "protocol": "MaxMarginDGM with default parameters, trained on the first training images of the normal set "
        "without labels; the first test images of both sets are scored",
        "rows": rows,
        "training_rows": training_rows,
        "seed": seed,
        "figures": [_one(normal, strange, rows, training_rows, seed, say) for normal, strange in (_PAIR, _PAIR[::-1])],
        "versions": versions(),
        "machine": machine("cpu"),
    }


def _one(
    normal: str, strange: str, rows: int, training_rows: int, seed: int, say: Callable[[str], None]
) -> dict[str, Any]:
    from sklearn.metrics import roc_auc_score

    from mmdgm.estimator import MaxMarginDGM

    own, other = load(normal), load(strange)
    began = time.monotonic()
    say(f"training on {normal}")
    model = MaxMarginDGM(random_state=seed).fit(own.x[:training_rows])
    seconds = {"training": round(time.monotonic() - began, 1)}
    tests = [part.x[len(part.x) - part.official_test :][:rows] for part in (own, other)]
    images = np.concatenate([*tests, np.zeros_like(own.x[:1])])
    auroc, black = {}, {}
    for method in METHODS:
        say(f"scoring by {method}")
        began = time.monotonic()
        scores = model.outlier_score(images, method)
        seconds[method] = round(time.monotonic() - began, 1)
        told = np.repeat([0, 1], [len(tests[0]), len(tests[1])])
        auroc[method] = float(roc_auc_score(told, scores[:-1]))
        black[method] = float((scores[: len(tests[0])] < scores[-1]).mean())
    return {"normal": normal, "strange": strange, "auroc": auroc, "black": black, "seconds": seconds}
