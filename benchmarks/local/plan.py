"""How many people, how many features, which epsilon: what `sottovoce local plan` predicts, as a table.

    python -m benchmarks.local.plan [--docs] [--quick]

Calculated, not measured: no data are read. ``--docs`` writes the tables of the appendix.
"""

from benchmarks.driver import benchmark
from sottovoce.local.planning import people_needed, plan_collection, predict_accuracy_range

EPSILONS = (1.0, 2.0, 4.0, 8.0)


def range_of(n: int, d: int, epsilon: float) -> str:
    found = predict_accuracy_range(n, d, epsilon)
    return f"{found.low:.2f} {found.rows[1].accuracy:.2f} {found.high:.2f}"


def needed(d: int, epsilon: float) -> str:
    count = people_needed(d, epsilon)
    return "more than 500 million" if count is None else f"{count:,}"


@benchmark(page="measured/local.md")
def main(run) -> None:
    features, people = (5, 20) if run.quick else (5, 10, 20, 50, 123), (10_000, 100_000, 1_000_000)
    head = tuple(f"epsilon {epsilon:g}" for epsilon in EPSILONS)
    accuracies = [(d, n, *(range_of(n, d, epsilon) for epsilon in EPSILONS)) for d in features for n in people]
    of_a_person = [
        (n, *(f"{plan_collection(n, 5, epsilon, delta=1e-7).central_epsilon:.3g}" for epsilon in EPSILONS))
        for n in people
    ]
    run.tables({
        "expected accuracy": (("features", "people|,", *head), accuracies),
        "people needed": (("features", *head), [(d, *(needed(d, epsilon) for epsilon in EPSILONS)) for d in features]),
        "central epsilon": (("people|,", *head), of_a_person),
    })  # fmt: skip
