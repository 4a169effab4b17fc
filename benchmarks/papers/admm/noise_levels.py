"""ADMM sharing under the published noise: test log loss by rounds and by level, after Figures 1(b), 2(b) and 3.

    python -m benchmarks.papers.admm.noise_levels [--quick] [--only a9a,wide] [--seeds 1] [--docs]

Eq. (16) of Hu et al. (arXiv:1907.07735) on a9a at two parties and on the wide set at three: the printed form, with the
noise that Theorem 3 scales for the claimed epsilon of one round, delta = 1e-5, bound b_1 = 1. The paper gives no rho,
and sigma falls with it: three are tried, and the one with the most rounds ahead of party 1 alone is shown. Beside:
no noise, party 1 alone, all columns with scikit-learn at C = 1 as in the paper, and at the C best on the test part.
The noise protects nobody: docs/privacy/published_vertical_noise.md. Curves are medians, round by round, of as many
seeds as are asked for. ``--quick``: a9a, 60 rounds, three levels, rho .3 and 1, one seed.
"""

import time
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from sklearn.linear_model import LogisticRegression

from benchmarks.common import data_folder
from benchmarks.driver import FIGURES, benchmark, keep
from benchmarks.papers.admm.convergence import L2, SETS, Task, test_log_loss
from sottovoce.losses import Logistic
from sottovoce.papers.admm import lemma_1_bound, theorem_3_std
from sottovoce.papers.admm.algorithm import half_inverse
from sottovoce.papers.admm.sharing import ScoreProblem

CLAIMS = {"a9a": (1.0, 0.3, 0.1, 0.03), "wide": (1.0, 0.3, 0.1, 0.03)}  # Lemma 1 divides by the columns
PENALTIES = (1e-4, 1e-3, 1e-2, 0.1, 1.0)  # C of the best line
AT = (10, 30, 100)
RHOS = (0.1, 0.3, 1.0)
NO_NOISE, ALONE, ALL, BEST = "no noise", "party 1 alone", "all columns", "all columns, best C"
PAPERS = {"a9a": ("1(b)", "3(a)"), "wide": ("2(b)", "3(b)")}


def levels(
    name: str, rounds: int, claims: tuple[float, ...], seeds: int, rhos: tuple[float, ...] = RHOS
) -> dict[str, Any]:
    """Return the test log loss by rounds of each level, and the lines beside them."""
    data = SETS[name](data_folder())
    sizes = [block.shape[1] for block in data.blocks()]
    task = Task(data, Logistic(), sizes)
    factors = [half_inverse(np.column_stack([block, np.ones(len(block))])) for block in task.blocks]
    out: dict[str, Any] = {"curves": {}, "ahead of party 1 by rho": {}}
    for line, columns in ((ALONE, slice(0, sizes[0])), (ALL, slice(None))):
        out[line] = central(data, columns, 1.0)
    for claim in (None, *claims):
        found, label = {}, NO_NOISE if claim is None else f"claimed epsilon {claim:g}"
        for rho in rhos:
            start = time.perf_counter()
            runs = [noisy_run(task, factors, claim, rho, seed, rounds) for seed in range(1 if claim is None else seeds)]
            losses = np.median([curve for curve, _ in runs], axis=0).tolist()
            found[rho] = {"test log loss": losses, "rho": rho, "stretch": stretch(len(data.y), len(sizes), rho)}
            found[rho] |= runs[0][1]
            print(f"{name}, {label}, rho {rho:g}: {losses[-1]:.4f}, {time.perf_counter() - start:.0f} s", flush=True)
        ahead = {rho: sum(loss < out[ALONE] for loss in curve["test log loss"]) for rho, curve in found.items()}
        out["ahead of party 1 by rho"][label] = ahead
        out["curves"][label] = found[max(rhos, key=lambda rho: (ahead[rho], -found[rho]["test log loss"][-1]))]
    by_C = {C: out[ALL] if C == 1.0 else central(data, slice(None), C) for C in PENALTIES}
    out["best C"] = min(by_C, key=lambda C: by_C[C])
    out[BEST] = by_C[out["best C"]]
    return out


def noisy_run(
    task: Task, factors: list[Any], claim: float | None, rho: float, seed: int, rounds: int
) -> tuple[list[float], dict[str, float]]:
    """Return the test log loss by rounds, and the noise that each party took; ``factors`` are `half_inverse`."""
    M, options = len(task.blocks), {"rho": rho, "form": "printed", "max_iter": rounds, "tol": 0.0}
    if claim is None:
        return task.admm(**options)[1], {}
    sigma = [
        theorem_3_std(
            lemma_1_bound(len(F), penalty=L2, curvature=1.0, rho=rho, n_parties=M, norm_bound=1.0),
            epsilon=claim, delta=1e-5,
        )
        for F in factors
    ]  # fmt: skip
    draws = [np.random.default_rng(1000 * seed + m) for m in range(M)]
    noise = lambda m: sigma[m] * (factors[m] @ draws[m].standard_normal(factors[m].shape[1]))  # noqa: E731
    losses = task.admm(noise=noise, **options)[1]
    return losses, {f"party{m + 1}": each for m, each in enumerate(sigma)}


def stretch(n: int, n_parties: int, rho: float) -> float:
    """Return how much larger the noise is with the least b_1 that the first round leaves possible, beside b_1 = 1.

    Assumption 2.1 bounds the norms of x, y and z by b_1. From zeros the first z is the same number for every record,
    with the sign of its label: its norm is known before training.
    """
    z = ScoreProblem(Logistic(), np.ones(n)).minimise(np.zeros(n), rho)
    by_bound = [
        lemma_1_bound(1, penalty=L2, curvature=1.0, rho=rho, n_parties=n_parties, norm_bound=bound)
        for bound in (float(np.linalg.norm(z)), 1.0)
    ]
    return by_bound[0] / by_bound[1]


def central(data: Any, columns: slice, C: float) -> float:
    """Return the test log loss of scikit-learn's model on some columns."""
    model = LogisticRegression(C=C, tol=1e-8, max_iter=5000).fit(data.X[:, columns], data.y)
    return test_log_loss(data, model.decision_function(data.X_test[:, columns]))


def table(name: str, out: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows: list[tuple[str, ...]] = []
    for curve_name, curve in out["curves"].items():
        losses = curve["test log loss"]
        at = [f"{losses[min(k, len(losses)) - 1]:.3f}" for k in AT]
        sigmas = " / ".join(f"{curve[p]:.3g}" for p in curve if p.startswith("party")) or "0"
        ahead = " / ".join(str(sum(loss < out[line] for loss in losses)) for line in (ALONE, ALL, BEST))
        claim = 0.0 if curve_name == NO_NOISE else float(curve_name.rpartition(" ")[2])
        assumed = f"{claim * curve['stretch']:.3g}" if claim else ""
        rows.append(
            (
                curve_name,
                f"{curve['rho']:g}",
                sigmas,
                assumed,
                *at,
                f"{min(losses):.3f} ({int(np.argmin(losses)) + 1})",
                ahead,
            )
        )
    for line in (ALONE, ALL, BEST):
        label = f"{line}, {out['best C']:g}" if line == BEST else line
        rows.append((label, "", "", "", *[f"{out[line]:.3f}"] * len(AT), f"{out[line]:.3f}", ""))
    head = (f"{name}, test log loss", "rho", "sigma at the parties", "claim with b_1 = norm of z^1",
            *(f"{k} rounds" for k in AT), "least (round)",
            "rounds ahead of party 1 / all / best C")  # fmt: skip
    return head, rows


def draw(results: dict[str, Any]) -> Any:
    figure, axes = plt.subplots(2, len(results), figsize=(5.4 * len(results), 7.6), squeeze=False)
    for column, (name, out) in enumerate(results.items()):
        by_round, by_level = axes[:, column]
        sigmas = {}
        for curve_name, curve in out["curves"].items():
            losses = curve["test log loss"]
            by_round.plot(range(1, len(losses) + 1), losses, label=curve_name)
            sigmas[curve_name] = curve.get("party1", 0.0)
        levels_shown = [curve_name for curve_name in out["curves"] if curve_name != NO_NOISE]
        for rounds, marker in ((10, "o"), (100, "s")):
            at = [out["curves"][c]["test log loss"] for c in levels_shown]
            shown = [losses[min(rounds, len(losses)) - 1] for losses in at]
            by_level.plot([sigmas[c] for c in levels_shown], shown, marker=marker, label=f"{rounds} rounds")
        for axis in (by_round, by_level):
            for line, style in ((ALONE, "--"), (ALL, "-"), (BEST, ":")):
                axis.axhline(out[line], color="black", lw=1, ls=style, label=line)
            axis.set(xscale="log", yscale="log", ylabel="test log loss")
            axis.legend(fontsize=6.5, framealpha=0.6)
        first, third = PAPERS[name]
        by_round.set(xlabel="rounds", title=f"{name}, as Figure {first}")
        by_level.set(xlabel="sigma at party 1", title=f"{name}, as Figure {third}")
    figure.tight_layout()
    return figure


@benchmark(page="papers/admm.md", only=(",".join(CLAIMS), "a9a"), seeds=1)
def main(run) -> None:
    results = {}
    for name in run.only.split(","):
        claims = CLAIMS[name][:3] if run.quick else CLAIMS[name]
        results[name] = levels(name, 60 if run.quick else 100, claims, run.seeds, RHOS[1:] if run.quick else RHOS)
        run.table("Published noise, test log loss", *table(name, results[name]), mark=f"levels of noise, {name}")
    run.keep("vertical_noise_levels", results)
    run.picture(lambda: draw(results), "vertical_noise_levels.png")
    if run.docs:
        keep("vertical_noise_levels", results, FIGURES)
