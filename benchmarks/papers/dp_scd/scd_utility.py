"""The theorems of the DP-SCD paper: epsilon of its sampling, the condition of Theorem 2, its bound and its algorithm.

    python -m benchmarks.papers.dp_scd.scd_utility [--quick] [--docs]

Made-up ridge problems where the condition is met (mu lambda = 5, full batches). Algorithm 1 as printed, delta = 1e-3,
noise of the moments accountant. Means of 20 runs; ``--quick``: 3.
"""

import math

import numpy as np

from benchmarks.driver import benchmark
from sottovoce.losses import Squared
from sottovoce.papers.dp_scd.bounds import PrintedUtility, epsilon_of_fixed_visits, epsilon_of_printed_sampling
from sottovoce.papers.dp_scd.published import moments_noise
from support.printed_scd import DELTA, printed_plan, printed_run, ridge

ROWS, PENALTY, CLIP = 200, 5.0, 2.0
# name, N, lambda, bound on l'' (1 / mu), epochs: Appendix E
EXPERIMENTS = (
    ("YearPredictionMSD, ridge", 347_786, 1e-4, 1.0, 50),
    ("Phishing, logistic", 6218, 1e-4, 0.25, 10),
    ("Adult, hinge", 24_420, 1e-5, math.inf, 10),
)


def sampling():
    """Return a line for each experiment: what holds at the noise of a claimed epsilon of 1."""
    lines = []
    for (name, n, _, _, epochs), batch in zip(EXPERIMENTS, (2000, 500, 500), strict=True):
        sigma = moments_noise(batch / n, epochs * math.ceil(n / batch), 1.0, DELTA)
        printed = epsilon_of_printed_sampling(n, batch, epochs * n // batch, sigma, DELTA)
        cut = epsilon_of_fixed_visits(epochs, sigma, DELTA)
        lines.append((name, f"{batch}", f"{sigma:.3g}", "1", f"{printed:.3g}", f"{cut:.3g}"))
    return ("experiment", "L", "sigma", "claimed", "L of N in each step", "shuffled and cut"), lines


def conditions():
    """Return a line for each experiment of the paper and some batch sizes."""
    lines = []
    for name, n, alpha, smoothness, epochs in EXPERIMENTS:
        if math.isinf(smoothness):
            lines.append((name, f"{alpha:g}", "0: the loss is not smooth", "any", "-L", "0", "no", "", ""))
            continue
        for batch in (5, 500, 2000, n):
            theorem = PrintedUtility(n_samples=n, batch_size=batch, alpha=alpha, smoothness=smoothness)
            left, right = theorem.condition
            steps = epochs * math.ceil(n / batch)
            lines.append(
                (
                    name, f"{alpha:g}", f"{theorem.curvature:g}", f"{batch}", f"{left:.4g}", f"{right:.3g}",
                    "yes" if theorem.holds else "no", f"{1.0 - theorem.contraction:.2g}",
                    f"{theorem.contraction**steps:.2g}",
                )
            )  # fmt: skip
    head = ("experiment", "lambda", "mu lambda", "L", "left side", "right side", "met", "1 - A", "A^T over its epochs")
    return head, lines


def measured(runs):
    """Return a line for each width and number of steps."""
    lines, kept = [], []
    for epochs in (1, 10):
        for width in (2, 8, 32, 128):
            problem = ridge(ROWS, width, 0, PENALTY)
            plan = printed_plan(
                Squared(), problem.X, alpha=PENALTY, batch_size=ROWS, clip=CLIP, epochs=epochs, epsilon=1.0
            )
            theorem = PrintedUtility(n_samples=ROWS, batch_size=ROWS, alpha=PENALTY, smoothness=1.0)
            ends = [printed_run(plan, problem.X, problem.y, seed) for seed in range(runs)]
            start, sigma = problem.suboptimality(np.zeros(ROWS)), plan.noise_multiplier
            bounds = [theorem.bound(start, epochs, variance) for variance in (sigma**2, 2.0 * (CLIP * sigma) ** 2)]
            dual = float(np.mean([problem.suboptimality(a) for a, _ in ends]))
            primal = float(np.mean([problem.excess(v) for _, v in ends]))
            kept.append({"steps": epochs, "M": width, "bounds": bounds, "S(alpha)": dual, "excess of v": primal})
            lines.append(
                (f"{epochs}", f"{width}", *(f"{bound:.3g}" for bound in bounds), f"{dual:.4g}", f"{primal:.3g}")
            )
    head = ("T", "M", "bound, sigma^2 as in Lemma 3", "bound, 2 C^2 sigma^2 as in Algorithm 1", "S(alpha), measured",
            "F - F* of v / (lambda N), measured")  # fmt: skip
    return (head, lines), kept


@benchmark(page="measured/dp_scd.md")
def main(run) -> None:
    shown = {"printed sampling": sampling(), "conditions": conditions()}
    shown["printed theorem"], _ = measured(3 if run.quick else 20)
    run.tables(shown)
