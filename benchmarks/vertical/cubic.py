"""Slope and shift of models trained by shares (`vertical/secure/slope_passes.py`): with them and without.

    python -m benchmarks.vertical.cubic [--only a9a,phishing] [--seeds 5] [--docs]

Columns are divided among three parties that all compute; delta = 1e-6; means over seeds, which are those of the split
too. Both forms follow from the same sums. "Slope": of a logistic regression of held-out labels on the predictions; 1 is
right. Chosen on a9a and phishing, confirmed once on the others.
"""

from unittest import mock

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from benchmarks.driver import Run, benchmark
from benchmarks.sets import split
from sottovoce.vertical.secure import slope_passes
from sottovoce.vertical.secure.agreed_plan import Block
from sottovoce.vertical.secure.joint_plan import JointPlan
from support.lockstep import run_jointly

SETS = "a9a,phishing,german,mushrooms,w8a,bank,credit,adult"
EPSILONS = (0.5, 2.0, 8.0)


def measured(name: str, epsilon: float, seed: int) -> np.ndarray:
    """Return log loss, accuracy and slope without and with."""
    data = split(name, seed)
    X, test = (np.asarray(part.toarray() if hasattr(part, "toarray") else part) for part in (data.X, data.X_test))
    ends = [X.shape[1] // 3, 2 * X.shape[1] // 3]
    tables = {f"party{k}": part for k, part in enumerate(np.split(X, ends, axis=1))}
    blocks = tuple(
        Block(
            party, part.shape[1], float(np.quantile(np.linalg.norm(part, axis=1), 0.9)) + 1e-9
        )  # as if it were public
        for party, part in tables.items()
    )
    plan = JointPlan(
        n_samples=len(X), label_holder="party0", loss="logistic", engine="shamir", alpha=1.0 / len(X), epsilon=epsilon,
        delta=1e-6, blocks=blocks,
    )  # fmt: skip
    positive = max(data.public["classes"])
    y, truth = np.where(data.y == positive, 1.0, -1.0), data.y_test == positive
    found = []
    for one in (lambda weights, *_: weights, slope_passes.calibrated):
        with mock.patch.object(slope_passes, "calibrated", one):
            weights = run_jointly(plan, tables, y, seed=seed)[0].weights
        scores = sum(part @ weights[f"party{k}"][0] for k, part in enumerate(np.split(test, ends, axis=1)))
        scores = scores + sum(intercept for _, intercept in weights.values())
        slope = LogisticRegression(C=np.inf).fit(scores[:, None], truth).coef_[0, 0]
        found += [log_loss(truth, 1.0 / (1.0 + np.exp(-scores))), np.mean((scores > 0) == truth), slope]
    return np.array(found)


@benchmark("vertical_secure.md", only=SETS, seeds=5)
def main(run: Run) -> None:
    rows = []
    for name in run.only.split(","):
        for epsilon in EPSILONS:
            means = np.mean([measured(name, epsilon, seed) for seed in range(run.seeds)], axis=0)
            rows.append([name, f"{epsilon:g}", *(f"{mean:.4f}" for mean in means)])
            print(*rows[-1], flush=True)
    both = [f"{what} {form}" for form in ("without", "with") for what in ("log loss", "accuracy", "slope")]
    run.table("Slope and shift", ["set", "epsilon", *both], rows, mark="cubic")
