"""How many people, how many features, which epsilon: what `sottovoce local plan` predicts, as a table.

    python -m benchmarks.local.plan [--docs] [--quick]

Calculated, not measured: no data are read. ``--docs`` writes the tables of the appendix.
"""

from benchmarks.common import DOCS, keep, make_parser, show, write_tables
from sottovoce.local.planning.planning import plan_collection
from sottovoce.local.planning.prediction import people_needed, predict_accuracy_range

PAGE = DOCS / "measured" / "local.md"
EPSILONS = (1.0, 2.0, 4.0, 8.0)


def main() -> None:
    parser = make_parser(__doc__, docs=True)
    given = parser.parse_args()
    features = (5, 20) if given.quick else (5, 10, 20, 50, 123)
    rows, needed, results = [], [], []
    for d in features:
        for n in (10_000, 100_000, 1_000_000):
            ranges = [predict_accuracy_range(n, d, epsilon) for epsilon in EPSILONS]
            rows.append((f"{d}", f"{n:,}", *(f"{r.low:.2f} {r.rows[1].accuracy:.2f} {r.high:.2f}" for r in ranges)))
            results += [
                {"n": n, "d": d, "epsilon": r.epsilon, "degree": r.degree, "accuracy": [p.accuracy for p in r.rows]}
                for r in ranges
            ]
        counts = [people_needed(d, epsilon) for epsilon in EPSILONS]
        needed.append((f"{d}", *("more than 500 million" if count is None else f"{count:,}" for count in counts)))
    columns = tuple(f"epsilon {epsilon:g}" for epsilon in EPSILONS)
    central = [
        (f"{n:,}", *(f"{plan_collection(n, 5, epsilon, delta=1e-7).central_epsilon:.3g}" for epsilon in EPSILONS))
        for n in (10_000, 100_000, 1_000_000)
    ]
    tables = {
        "expected accuracy": (("features", "people", *columns), rows),
        "people needed": (("features", *columns), needed),
        "central epsilon": (("people", *columns), central),
    }
    for name, table in tables.items():
        show(name, *table)
    keep("local_plan", results)
    if given.docs:
        write_tables(PAGE, tables)


if __name__ == "__main__":
    main()
