"""The same people in one process and at three or four sites: the same model, bit for bit (a9a)."""

import bz2

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")

from sottovoce.vertical import VerticalLogisticRegression, VerticalSparseLogisticRegression
from support.federation import Columns, running_federation
from support.small_federation import check_model, in_process

pytestmark = pytest.mark.federation

FEATURES = 123
PRIVATE = ("--epsilon", 1.0, "--delta", 1e-6)
SETTINGS = """
[allow]
answers = ["exact", "local-models", "frank-wolfe"]
[trial]
random_state = {seed}
"""
RUNS = {
    "exact": (VerticalLogisticRegression, ("--model", "logistic", "--epsilon", "inf"), {"epsilon": float("inf")}),
    "local-models": (
        VerticalLogisticRegression,
        ("--model", "logistic", *PRIVATE, "--mechanism", "local-models"),
        {"epsilon": 1.0, "delta": 1e-6, "mechanism": "local-models"},
    ),
    "Frank-Wolfe": (
        VerticalSparseLogisticRegression,
        ("--model", "sparse-logistic", *PRIVATE, "--radius", 5, "--n-steps", 12),
        {"epsilon": 1.0, "delta": 1e-6, "radius": 5.0, "n_steps": 12},
    ),
}  # fmt: skip


def split(path, names):
    with bz2.open(path) as file:
        X, y = load_svmlight_file(file, n_features=FEATURES)
    ends = np.linspace(0, FEATURES, len(names) + 1).astype(int)
    made = {}
    for number, name in enumerate(names):
        columns = X[:, ends[number] : ends[number + 1]].toarray()
        made[name] = Columns(X=columns, y=None if number else y, settings=SETTINGS.format(seed=number))
    return made


@pytest.fixture(scope="module", params=[3, pytest.param(4, marks=pytest.mark.slow)], ids=["three-sites", "four-sites"])
def federation(request, real_data):
    path = real_data("a9a.bz2") / "a9a.bz2"
    with running_federation(split(path, ["insurer", "north", "bank", "shop"][: request.param])) as federation:
        yield federation


@pytest.mark.parametrize("run", RUNS)
def test_the_model_is_that_of_one_process(federation, run):
    kind, words, parameters = RUNS[run]
    estimator = kind(**parameters, labels_public=True, classes=["no", "yes"], label_holder=federation.names[0])
    expected = in_process(federation, estimator)
    federation.train("--labels-public", *words, "--json", seconds=180)
    check_model(federation, federation.runs()[-1], expected)
    assert sum(len(part.coef) for part in expected.values()) == FEATURES
    federation.wait_for_silence()
