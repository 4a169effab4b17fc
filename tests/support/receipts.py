"""Receipts of real fits, small and quick, of every kind that there is; and forgeries that keep the file together."""

import copy
import functools
import json
import math
import re
import warnings

import numpy as np
from sklearn.preprocessing import Normalizer

import sottovoce as sv
from sottovoce import receipt_reader, vertical
from sottovoce._plain_data import digest
from sottovoce.exceptions import SottovoceError, SottovoceWarning
from sottovoce.local import Aggregator, Protocol, Randomizer
from sottovoce.papers.ldp import BernsteinProtocol
from sottovoce.papers.ldp.server import guarantee as bernstein_receipt
from sottovoce.privacy.events import GaussianEvent, RepeatedEvent
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.reading import fingerprint
from support.solvers import by_name

BUDGET = {"epsilon": 1.0, "delta": 1e-5}
N = 400
FIELDS = {
    "epsilon": 1.5,
    "delta": 1e-5,
    "adjacency": "zero-out",
    "unit": "one row of the table, label included",
    "mechanism": "a mechanism",
    "releases": ("the weights", "the scale"),
    "event": RepeatedEvent(GaussianEvent(20.0), 25),
    "assumptions": ("n_samples = 100",),
    "not_covered": ("timing", "tuning"),
    "seeded": False,
    "accountant": "exact Gaussian DP",
    "proof": "docs/privacy/page.md",
    "version": "0.1.0",
    "parameters": {"solver": "scd"},
}


def made_up(**changes):
    """Return a receipt that no run wrote."""
    return Guarantee(**(FIELDS | changes))


def table(n=N):
    rng = np.random.default_rng(7)
    X = rng.uniform(0.0, 1.0, (n, 4))
    return X, X @ [1.0, -1.0, 0.5, 0.0]


def ridge(rows=(), **options):
    X, y = table()
    given = {**BUDGET, "data_norm": 2.0, "label_bounds": (-1, 2)} | options
    return sv.DPRidge(**given).fit(X, y, **dict(rows))


def classifier(kind, **options):
    X, y = table()
    classes = options.pop("classes", ["a", "b"])
    cuts = np.quantile(y, np.linspace(0.0, 1.0, len(classes) + 1)[1:-1])
    bounds = {} if kind is sv.DPSparseLogisticRegression else {"data_norm": 2.0}
    return kind(**{**BUDGET, **bounds, "classes": classes} | options).fit(X, np.array(classes)[np.digitize(y, cuts)])


def lasso(**options):
    X, y = table()
    return sv.DPLasso(**{**BUDGET, "data_bound": 1.0, "label_bounds": (-1, 2), "radius": 2.0} | options).fit(X, y)


def searched(**options):
    X, y = table()
    inner = sv.DPLogisticRegression(data_norm=2.0, classes=[0, 1], **options.pop("inner", {}))
    space = {"alpha": [1e-3, 1e-2], "fit_intercept": [True, False]}
    return sv.DPSearchCV(inner, space, **{**BUDGET, "n_iter": 2.0} | options).fit(X, (y > 0.2).astype(int))


def scaled(**options):
    return sv.DPScaler(**{**BUDGET} | options).fit(table(2_000)[0])


def pipeline(model=None, between=(), scaler=None, **options):
    X, y = table(2_000)
    model = sv.DPLogisticRegression(classes=[0, 1]) if model is None else model
    steps = [("scale", sv.DPScaler() if scaler is None else scaler), *between, ("model", model)]
    regression = isinstance(model, sv.DPRidge)
    return sv.DPPipeline(steps, **{**BUDGET} | options).fit(X, y if regression else (y > 0.2).astype(int))


def joint(kind, y=None, **options):
    X, values = table()
    sparse = kind in (vertical.VerticalLasso, vertical.VerticalSparseLogisticRegression)
    names = ("party1", "party2", "party3")
    bound = {"data_bound": dict.fromkeys(names, 1.0)} if sparse else {"data_norm": dict.fromkeys(names, 1.5)}
    parties = vertical.split_columns(X, [1, 2, 1], **bound)
    regression = kind in (vertical.VerticalRidge, vertical.VerticalLasso)
    facts = {"label_bounds": (-1, 2)} if regression else {"classes": ["a", "b"]}
    labels = values if regression else np.where(values > 0.2, "b", "a")
    return kind(**{**BUDGET, **facts} | ({"radius": 2.0} if sparse else {}) | options).fit(parties, labels)


def reports(**options):
    X, y = table(200)
    protocol = Protocol(epsilon=4.0, n_features=4)
    randomizer, collected = Randomizer(protocol), Aggregator(protocol)
    for row, label in zip(0.5 * X, np.sign(y - 0.2), strict=True):
        collected.add(randomizer.report(row, int(label)))
    return collected.fit(**options)


L, S, P = sv.DPLogisticRegression, sv.DPLinearSVC, sv.DPSparseLogisticRegression
CENTRAL = {
    **{f"ridge {solver}": functools.partial(ridge, solver=by_name(solver)) for solver in
       ("auto", "scd", "Minibatch", "Published", "sgd", "Sequential", "Primal", "adassp", "refinement",
        "constant", "momentum")},
    **{f"{kind.__name__} {solver}": functools.partial(classifier, kind, solver=by_name(solver))
       for kind in (L, S) for solver in
       ("auto", "scd", "Minibatch", "Published", "sgd", "Sequential", "Primal")},
    "hinge newton": functools.partial(classifier, S, solver="newton"),
    "hinge newton, one-vs-rest": functools.partial(classifier, S, classes=["a", "b", "c"]),
    **{f"newton {adjacency}": functools.partial(classifier, L, solver="newton", adjacency=adjacency, n_public=N)
       for adjacency in ("zero-out", "add-remove", "replace-one")},
    "newton one-vs-rest": functools.partial(classifier, L, solver="newton", classes=["a", "b", "c"]),
    "newton, passes given": functools.partial(classifier, L, solver="newton", solver_options={"n_passes": 4}),
    "lasso": lasso,
    "sparse logistic": functools.partial(classifier, P, data_bound=1.0, radius=2.0),
    "all classes jointly": functools.partial(classifier, L, classes=["a", "b", "c"]),
    "all classes jointly, passes given": functools.partial(
        classifier, L, classes=["a", "b", "c"], solver="multinomial-scd", solver_options={"n_passes": 30}
    ),
    "all classes jointly, steps": functools.partial(
        classifier, L, classes=["a", "b", "c"], solver="multinomial-scd", solver_options={"steps": True}
    ),
    "descent": functools.partial(classifier, L, solver="gd"),
    "descent with momentum": functools.partial(classifier, L, solver="momentum"),
    "one step further": functools.partial(classifier, L, solver="one-step"),
    "all classes jointly, two of them": functools.partial(classifier, L, solver="multinomial-scd"),
    "one-vs-rest": functools.partial(classifier, L, classes=["a", "b", "c"], solver="scd"),
    "one-vs-rest sgd": functools.partial(classifier, L, classes=["a", "b", "c"], solver="sgd"),
    "add-remove": functools.partial(classifier, L, adjacency="add-remove", n_public=500, delta=1e-4),
    "replace-one": functools.partial(ridge, adjacency="replace-one"),
    "no intercept": functools.partial(ridge, fit_intercept=False, alpha="auto"),
    "label scale unused": functools.partial(ridge, solver="adassp", solver_options={"clip_labels": False}),
    "momentum without an intercept": functools.partial(ridge, solver="momentum", fit_intercept=False),
    "refinement without an intercept": functools.partial(ridge, solver="refinement", fit_intercept=False),
    "refinement, passes given": functools.partial(ridge, solver="refinement", solver_options={"n_passes": 7}),
    "passes given": functools.partial(classifier, L, solver="scd", solver_options={"n_passes": 30}),
    "seeded": functools.partial(ridge, random_state=3),
    "persons": functools.partial(ridge, {"groups": np.arange(N) // 3}, max_rows_per_group=2),
    "weights": functools.partial(ridge, {"sample_weight": np.full(N, 0.5)}, max_sample_weight=2.0),
    "a norm that is released": functools.partial(ridge, data_norm="auto"),
    "large delta, said twice": functools.partial(ridge, delta=0.1, accept_delta=0.1),
    "no noise": functools.partial(ridge, epsilon=math.inf, delta=None),
    "no noise, sgd": functools.partial(classifier, L, epsilon=math.inf, solver="sgd"),
    "no noise, all classes jointly": functools.partial(classifier, L, classes=["a", "b", "c"], epsilon=math.inf),
    "no noise, lasso": functools.partial(lasso, epsilon=math.inf),
    "classes read from the data": functools.partial(classifier, L, classes=[1, 2]),
    "pipeline": pipeline,
    "pipeline ridge add-remove": functools.partial(
        pipeline, sv.DPRidge(label_bounds=(-1, 2)), adjacency="add-remove", n_public=1_500
    ),
    "pipeline with a step that learns nothing": functools.partial(
        pipeline, sv.DPLinearSVC(classes=[0, 1], data_norm=1.0), [("unit", Normalizer())], random_state=2
    ),
    "pipeline sparse, share given": functools.partial(
        pipeline, sv.DPSparseLogisticRegression(classes=[0, 1], radius=2.0), scaler_share=0.2
    ),
    "pipeline sgd, bounds": functools.partial(
        pipeline, sv.DPLogisticRegression(classes=[0, 1], solver="sgd"), scaler=sv.DPScaler(bounds=(0.0, 1.0))
    ),
    "pipeline, nothing is scaled": functools.partial(
        pipeline, sv.DPLinearSVC(classes=[0, 1], data_norm=2.0), epsilon=1e-3
    ),
    "pipeline without a scaler": functools.partial(
        pipeline, sv.DPLinearSVC(classes=[0, 1], data_norm=2.0), scaler="passthrough"
    ),
    "pipeline no noise": functools.partial(pipeline, epsilon=math.inf, delta=None),
    "search": searched,
    "search add-remove": functools.partial(
        searched, random_state=1, inner={"adjacency": "add-remove", "n_public": 500}
    ),
}  # fmt: skip
OTHER = {
    "vertical local-models": functools.partial(joint, vertical.VerticalLogisticRegression, mechanism="local-models"),
    "vertical public labels": functools.partial(joint, vertical.VerticalRidge, labels_public=True),
    "vertical svm": functools.partial(joint, vertical.VerticalLinearSVC),
    "vertical ridge": functools.partial(joint, vertical.VerticalRidge),
    "vertical no noise": functools.partial(joint, vertical.VerticalRidge, epsilon=math.inf),
    "vertical lasso": functools.partial(joint, vertical.VerticalLasso),
    "vertical sparse": functools.partial(joint, vertical.VerticalSparseLogisticRegression, aggregation="local"),
    "secure": functools.partial(joint, vertical.VerticalRidge, mechanism="secure"),
    "secure lasso": functools.partial(joint, vertical.VerticalLasso, aggregation="secure"),
    "scaler": scaled,
    "scaler replace-one, bounds": functools.partial(
        scaled, adjacency="replace-one", bounds=([0, 0, 0, -1], [1, 2, 3, 4])
    ),
    "scaler, two bounds": functools.partial(scaled, bounds=(0.0, 1.0)),
    "scaler add-remove": functools.partial(scaled, adjacency="add-remove", n_public=3_000),
    "scaler, nothing is released": functools.partial(scaled, epsilon=1e-3),
    "local": reports,
    "shuffled": functools.partial(reports, shuffled=True, delta=1e-4),
}  # fmt: skip

PRIVATE = {
    name: fit for name, fit in (CENTRAL | OTHER).items()
    if not re.search("no noise|nothing is released", name)
}  # fmt: skip


@functools.cache
def fitted(name):
    """Return the model of that name; one fit for all tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SottovoceWarning)
        return (CENTRAL | OTHER)[name]()


def receipts(name):
    """Yield the receipts of a model: its own, and those of parties."""
    model = fitted(name)
    yield model.guarantee_
    yield from getattr(model, "party_guarantees_", {}).values()


def bernstein():
    return bernstein_receipt(BernsteinProtocol(loss="hinge", n_features=3, epsilon=2.0, delta=1e-6), 1000)


def together(data):
    """Return an edited receipt with sentence and checksum made again, as a forger with this library would."""
    data = copy.deepcopy(data)
    try:
        made = Guarantee.from_dict(data)
        data["statement"] = made.statement()
    except SottovoceError:
        pass
    data["checksum"] = digest({key: value for key, value in data.items() if key not in ("checksum", "signature")})
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def agree(path, found):
    """Compare what the reader without the library says of a file with what `verify_receipt` found."""
    said = {name: passed for name, passed, _ in receipt_reader.findings(receipt_reader.load(path))}
    assert said["structure"] or not found.passed
    for check in found.checks:
        if check.name == "schema":  # the library also reads the text
            assert said["schema"] or not check.passed
        elif said.get(check.name) is not None:
            assert said[check.name] == check.passed, (check, said)
    if found.passed:
        data = receipt_reader.load(path)
        assert receipt_reader.fingerprint(data.get("guarantee", data)) == fingerprint(found.guarantee)
    return said
