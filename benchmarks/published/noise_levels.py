"""ADMM sharing under the published noise: test log loss by rounds for several claimed epsilons, after Figure 3.

    python -m benchmarks.published.noise_levels [--quick] [--docs]

Eq. (16) of Hu et al. (arXiv:1907.07735) on a9a at two parties: the printed form, with the noise that Theorem 3 scales
for the claimed epsilon of one round, delta = 1e-5, bound b_1 = 1. Beside it: no noise, party 1 alone, all columns. The
noise protects nobody: docs/privacy/published_vertical_noise.md. ``--quick``: 15 rounds, two levels.
"""

from typing import Any

from matplotlib import pyplot as plt
from sklearn.linear_model import LogisticRegression

from benchmarks.common import DOCS, data_folder, keep, keep_picture, make_parser, show, write_tables
from benchmarks.vertical.convergence import Task, test_log_loss
from benchmarks.vertical.data import a9a_parties
from sottovoce.losses import Logistic
from sottovoce.published.vertical_admm.messages import PublishedStart
from sottovoce.vertical.protocols.exact.admm import admm
from sottovoce.vertical.protocols.exact.plan import automatic_rho
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.wire import Done

CLAIMS = (1.0, 0.3, 0.1, 0.03)


def levels(rounds: int, claims: tuple[float, ...]) -> dict[str, Any]:
    """Return the test log loss by rounds of each level, and the two lines beside them."""
    data = a9a_parties(data_folder())
    sizes = [block.shape[1] for block in data.blocks()]
    rho = automatic_rho(Logistic().smoothness)
    out: dict[str, Any] = {"curves": {}}
    for claim in (None, *claims):
        task = Task(data, Logistic(), sizes)
        for m, party in enumerate(task.parties.parties.values()):
            party.seed(m)
        noise = {}
        if claim is not None:
            task.parties.exchange(PublishedStart(claim, 1e-5, 1.0, len(sizes)), Done)
        losses: list[float] = []
        problem = ScoreProblem(Logistic(), data.y)
        admm(task.parties, problem, rho=rho, form="printed", max_iter=rounds, tol=0.0,
             after=lambda _, losses=losses, task=task: losses.append(task.log_loss()))  # fmt: skip
        if claim is not None:
            noise = {
                name: party._sessions.last.training.worker.noise_std for name, party in task.parties.parties.items()
            }
        out["curves"]["no noise" if claim is None else f"claimed epsilon {claim:g}"] = {
            "test log loss": losses,
            **noise,
        }
    first = data.blocks()[0].shape[1]
    for name, columns in (("party 1 alone", slice(0, first)), ("all columns", slice(None))):
        model = LogisticRegression(C=1.0, tol=1e-8, max_iter=5000).fit(data.X[:, columns], data.y)
        out[name] = test_log_loss(data, model.decision_function(data.X_test[:, columns]))
    return out


def main() -> None:
    parser = make_parser(__doc__, docs=True)
    args = parser.parse_args()
    out = levels(15 if args.quick else 100, CLAIMS[:2] if args.quick else CLAIMS)
    rows: list[tuple[str, ...]] = []
    for name, curve in out["curves"].items():
        losses = curve["test log loss"]
        at = [f"{losses[min(k, len(losses)) - 1]:.3f}" for k in (10, 30, 100)]
        rows.append((name, " / ".join(f"{curve[p]:.3g}" for p in curve if p != "test log loss") or "0", *at))
    rows += [(name, "", *[f"{out[name]:.3f}"] * 3) for name in ("party 1 alone", "all columns")]
    head = ("a9a, test log loss", "sigma at the parties", "10 rounds", "30", "100")
    show("Published noise, test log loss", head, rows)
    keep("vertical_noise_levels", out)
    if not args.docs:
        return
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for name, curve in out["curves"].items():
        axes.plot(range(1, len(curve["test log loss"]) + 1), curve["test log loss"], label=name)
    for name, style in (("party 1 alone", "--"), ("all columns", "-")):
        axes.axhline(out[name], color="black", lw=1, ls=style, label=name)
    axes.set(xscale="log", yscale="log", xlabel="rounds", ylabel="test log loss", title="a9a, published noise")
    axes.legend(fontsize=8)
    figure.tight_layout()
    keep_picture(figure, DOCS / "figures" / "vertical_noise_levels.png")
    keep("vertical_noise_levels", out, DOCS / "figures")
    write_tables(DOCS / "papers" / "admm_sharing.md", {"levels of noise": (head, rows)})


if __name__ == "__main__":
    main()
