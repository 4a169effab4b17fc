"""The audit of two peers that claim more than they keep, in their own environments, and of ours with as many runs.

    python -m benchmarks.audit.peers [diffprivlib] [snapml] [ours] [--quick]

* diffprivlib 0.6.6 LogisticRegression (objective perturbation, pure epsilon = 1, data_norm = 12): its correction for
  the Jacobian takes the norm of a row where it needs the square.
* Snap ML 1.17.2 LogisticRegression(privacy=True), (1, 0.01): the same noise whatever the random_state.
* sottovoce DPLogisticRegression at (1, 1e-5): its default, replace-one.
"""

import sottovoce as sv
from benchmarks.driver import benchmark
from benchmarks.peers import libraries as peers
from sottovoce.audit import audit_estimator, worst_case_pairs


def diffprivlib(quick):
    """Pure epsilon = 1; one column, three rows, no intercept."""
    return audit_estimator(
        "diffprivlib.models.LogisticRegression",
        worst_case_pairs(n_rows=3, n_features=1, data_norm=12.0, classes=[0, 1])[:4], epsilon=1.0, delta=0.0,
        n_runs=5_000 if quick else 40_000, n_pilot=1_000,
        parameters={"epsilon": 1.0, "data_norm": 12.0, "fit_intercept": False, "random_state": 0},
        python=peers.interpreter("diffprivlib"), n_jobs=2,
    )  # fmt: skip


def snapml(quick):
    """Its delta is fixed at 0.01; a fit takes a tenth of a second."""
    return audit_estimator(
        "snapml.LogisticRegression",
        worst_case_pairs(n_rows=8, n_features=1, data_norm=1.0, classes=[-1, 1])[:2],
        epsilon=1.0,
        delta=0.01,
        n_runs=200 if quick else 400,
        n_pilot=100,
        parameters={
            "privacy": True, "dual": False, "privacy_epsilon": 1.0, "batch_size": 4, "grad_clip": 1.0, "max_iter": 5,
            "fit_intercept": False, "random_state": 0,
        },
        python=peers.interpreter("snapml"),
        n_jobs=2,
    )  # fmt: skip


def ours(quick):
    """Return the audit of our estimator on diffprivlib's tables."""
    given = {"epsilon": 1.0, "delta": 1e-5}
    model = sv.DPLogisticRegression(
        **given, data_norm=12.0, classes=[0, 1], fit_intercept=False, adjacency="replace-one"
    )
    pairs = worst_case_pairs(n_rows=3, n_features=1, data_norm=12.0, classes=[0, 1])[:4]
    return audit_estimator(model, pairs, **given, n_runs=5_000 if quick else 40_000, n_pilot=1_000)


@benchmark(words=("ours", *peers.PEERS))
def main(run) -> None:
    parts = run.words or {"ours", *(peers.at_hand() if run.quick else peers.PEERS)}
    rows, results = [], {}
    for name, audit in {"diffprivlib": diffprivlib, "snapml": snapml, "ours": ours}.items():
        if name not in parts:
            continue
        report = audit(run.quick)
        results[name] = report.to_dict()
        rows.append((
            name, f"({report.epsilon:g}, {report.delta:g})", report.lower_bound,
            "VIOLATED" if report.violated else "not refuted", report.n_runs, report.detectable,
            f"{report.pair}; {report.attack}",
        ))  # fmt: skip
        print(report.statement(), flush=True)
    head = ("estimator", "claim", "epsilon at least|.3f", "finding", "runs", "would have seen|.2f", "tables; attack")
    run.table("Audits, 99.9 % confidence", head, rows)
    run.keep("audit-peers", results)
