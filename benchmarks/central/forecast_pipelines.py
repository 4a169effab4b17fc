"""How often fits of the recipe (`DPPipeline` of `DPScaler` and a model) are within their forecast's range.

    python -m benchmarks.central.forecast_pipelines [--quick]

Every forecast is told the score without noise and the labels. The margin of `PipelineTrials` is the least of those
below with 85 % of fits within the range on every second table (in the order of the list); the other tables were seen
in the same run, and agree.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sottovoce as sv
from benchmarks.central.raw_columns import TABLES
from benchmarks.driver import benchmark
from sottovoce.forecasting.trials import PipelineTrials

DELTA, SEEDS, MOST = 1e-6, 3, 40_000
MARGINS = (0.005, 0.01, 0.015, 0.02, 0.03)


def cells(name: str) -> list[tuple[str, float, float, float, list[float]]]:
    """Return (table, epsilon, low, high, scores of fits) for each epsilon."""
    X, y, public = TABLES[name]()
    kept = np.random.default_rng(0).permutation(len(X))[:MOST]
    X, X_test, y, y_test = train_test_split(np.asarray(X, float)[kept], np.asarray(y)[kept], random_state=0)
    is_regression = "label_bounds" in public
    exact = make_pipeline(StandardScaler(), Ridge() if is_regression else LogisticRegression(max_iter=500))
    best, kind = exact.fit(X, y).score(X_test, y_test), sv.DPRidge if is_regression else sv.DPLogisticRegression
    if is_regression:
        low, high = public["label_bounds"]
        told = {"r2_without_noise": max(0.01, best), "label_spread": min(1.0, float(np.std(y) / (0.5 * (high - low))))}
    else:
        largest = float(np.unique(y, return_counts=True)[1].max() / len(y))
        told = {"largest_class": largest, **({"accuracy_without_noise": best} if best > largest else {})}
    found = []
    for epsilon in (0.1, 1.0):

        def pipeline(seed: int | None = None, epsilon: float = epsilon) -> sv.DPPipeline:
            steps = [("scale", sv.DPScaler()), ("model", kind(**public))]
            return sv.DPPipeline(steps, epsilon=epsilon, delta=DELTA, random_state=seed)

        rows = list(sv.forecast(pipeline(), *X.shape, **told).rows.values())
        scores = [float(pipeline(seed).fit(X, y).score(X_test, y_test)) for seed in range(SEEDS)]
        found.append((name, epsilon, min(row.low for row in rows), max(row.high for row in rows), scores))
    return found


@benchmark()
def main(run):
    names = ["uniform", "wine"] if run.quick else list(TABLES)
    found = [cell for name in names for cell in cells(name)]

    def within(margin, half):
        more = margin - PipelineTrials.margin
        return 100 * np.mean([
            low - more <= score <= high + more
            for name, _, low, high, scores in found if name in half for score in scores
        ])  # fmt: skip

    shares = ((margin, within(margin, names[::2]), within(margin, names[1::2])) for margin in MARGINS)
    run.table("fits within the range, percent", ("margin", "chosen on|.0f", "confirmed on|.0f"), shares)
    rows = [(*cell[:4], ", ".join(f"{score:.3f}" for score in cell[4])) for cell in found]
    run.table("each table", ("table", "epsilon|g", "low|.3f", "high|.3f", "fits"), rows)
