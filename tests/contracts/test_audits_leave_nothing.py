"""After an audit nothing of it is left: no replaced function, no stream whose coins follow from the audit's seed.

The taps stand in the place of the functions that draw. A module that is first loaded while they do could keep one for
good. So one process, which has loaded as little as possible, audits every solver and is then searched.
"""

import inspect
import os
import pkgutil
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.exceptions import AuditError
from sottovoce.papers.dp_scd import kernels as dp_scd_kernels
from sottovoce.privacy import mechanisms
from sottovoce.randomness import Purpose, Streams
from support.grey_box import ALL, CASES
from support.replay import grey_box, recording

SEARCH = """
import gc, sys, types, warnings
warnings.simplefilter("ignore")
import numpy as np, sottovoce as sv
from sottovoce.papers.dp_scd import Minibatch, Primal, Published, Sequential
from support.compile_once import compile_once
from support.replay import grey_box
compile_once()  # what a worker of the tests has compiled meanwhile is read
X, y = np.eye(12, 3), np.where(np.arange(12) % 2, 1.0, -1.0)
for name, given in {cases!r}:
    public = dict(epsilon=1.0, delta=1e-6, adjacency="zero-out", n_public=12, **given)
    public |= {{}} if "data_bound" in given or "data_norm" in given else dict(data_norm=1.0)
    run = lambda X, y: [getattr(sv, name)(**public).fit(X, y).coef_]
    grey_box(run, (X, y), (X, y), sampled=(7,))

def taps(owner, seen):
    for name, value in list(vars(owner).items()):
        if isinstance(value, types.FunctionType) and value.__module__ == "support.replay":
            yield f"{{owner.__name__}}.{{name}}"
        elif isinstance(value, type) and value.__module__.startswith("sottovoce.") and value not in seen:
            seen.add(value)
            yield from taps(value, seen)

modules = {{name: module for name, module in sys.modules.items() if name.startswith("sottovoce")}}
seen = set()
left = sorted({{place for module in modules.values() for place in taps(module, seen)}})
print(len(modules), len(seen), left)
"""


def test_no_replaced_function_is_left_in_any_module_that_a_solver_loads():
    first = {case.name.split(",")[0]: case for case in reversed(CASES)}  # what is loaded follows from the solver
    cases = [(case.kind.__name__, case.given) for case in first.values()]
    done = subprocess.run(
        [sys.executable, "-c", SEARCH.format(cases=cases)], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    n_modules, n_classes, left = done.stdout.split(maxsplit=2)
    assert int(n_modules) > 130
    assert int(n_classes) > 200
    assert left.strip() == "[]"


@pytest.mark.parametrize("purpose", Purpose)
@pytest.mark.parametrize("when", ["before", "inside"])
def test_a_stream_that_was_first_used_in_an_audit_draws_nothing_after_it(purpose, when):
    kept, once = Streams(3), Streams(3).generator(purpose).random(4)
    with recording():
        kept = kept if when == "before" else Streams(3)
        stream = kept.generator(purpose)
        stream.random()
    with pytest.raises(AuditError, match="an audit that is over: make its owner anew"):
        stream.random()
    with pytest.raises(AuditError, match="an audit that is over"):
        kept.generator(purpose).integers(3)
    np.testing.assert_array_equal(Streams(3).generator(purpose).random(4), once)  # others are what they were


def every_mechanism():
    """Yield each class that turns exact values into released ones, and the name of the method that does."""
    for info in pkgutil.iter_modules(mechanisms.__path__, f"{mechanisms.__name__}."):
        for _, kind in inspect.getmembers(import_module(info.name), inspect.isclass):
            if kind.__module__ == info.name:
                yield from ((kind, method) for method in ("release", "select") if method in vars(kind))


def test_the_auditor_knows_every_mechanism_and_one_audit_runs_at_a_time():
    found = [*every_mechanism(), (Streams, "generator"), (dp_scd_kernels, "batch_pass")]
    before = [vars(owner)[name] for owner, name in found]
    with recording():
        inside = [vars(owner)[name] for owner, name in found]
        with pytest.raises(AuditError, match="another recording or replay is under way"), recording():
            pass
        assert inside == [vars(owner)[name] for owner, name in found]
    assert len(found) >= 6
    assert [place for place, one, other in zip(found, before, inside, strict=True) if one is other] == []
    assert before == [vars(owner)[name] for owner, name in found]


@pytest.mark.parametrize("adjacency", ALL)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_an_evaluation_can_be_audited(adjacency, delta):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = (X[:, 0] + rng.standard_normal(300) > 0).astype(int)
    model = sv.DPLogisticRegression(
        epsilon=1.0, delta=1e-6, data_norm=2.0, classes=[0, 1], adjacency="replace-one", random_state=0
    ).fit(X, y)
    other = (np.vstack([X[:-1], -X[-1]]), np.append(y[:-1], 1 - y[-1]))
    pair = other if adjacency == "replace-one" else (X[:-1], y[:-1])

    def run(X, y):
        found = sv.evaluate(model, X, y, epsilon=1.0, delta=delta, adjacency=adjacency, n_public=300)
        return [found.accuracy, found.auc, found.n_rows, found.n_left_out]

    found = grey_box(run, (X, y), pair)
    assert found.fault == ""
    assert found.n_releases >= 1
    assert 0.2 < found.largest <= 1.0
