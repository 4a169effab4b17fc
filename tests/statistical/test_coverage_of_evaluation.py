"""How often the intervals of an evaluation cover, over many seeds, on rows whose law is known.

200 evaluations: a coverage of .95 is .90 or more but for one in 1,000 of the seeds, which are fixed.
"""

import pytest

from benchmarks.central.evaluation import made_up, made_up_classes, made_up_numbers, measured

RUNS = 200
CASES = {
    "balanced": (lambda: made_up("", 0.5, 1.7, 1.3), 2000, 1.0),
    "unbalanced": (lambda: made_up("", 0.1, 1.7, 1.0), 10_000, 0.5),
    "weak scores": (lambda: made_up("", 0.3, 0.6, 0.3), 10_000, 1.0),
    "several classes": (made_up_classes, 5000, 1.0),
    "regression": (made_up_numbers, 5000, 1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", list(CASES))
def test_coverage(name, delta):
    source, n, epsilon = CASES[name]
    found = measured(source(), n, epsilon, RUNS, delta)
    wide = ("mae", "r2", "precision")  # they allow for more than is there
    for measure, line in found.items():
        print(f"{name}, {measure}: {line['population']:.3f}")
        assert line["population"] >= 0.90, measure
        assert line["population"] <= 0.99 or measure in wide, measure
