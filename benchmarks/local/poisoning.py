"""What attackers who work together do to a model from reports: AUC and accuracy, on a9a and synthetic people.

    python -m benchmarks.local.poisoning [--seeds 3] [--only synthetic,a9a] [--docs] [--quick]

Besides n honest people there are 0.1 %, 1 % or 5 % of n attackers, who all push in one direction t. They know the data:
t is against the mean of all honest vectors, or against the model without attackers; the more harmful of the two is
shown. Three kinds, from weak to strong:

* false answers: an honest device, with t as the person's vector;
* chosen index: the seed belongs to the token, so the attacker may only choose the best of its K candidates for t;
* free seed: the attacker tries a million seeds and sends the best of all their candidates.

Reports are drawn by their exact law. "noticed": share of the collections in which `Aggregator.health` warns (of the
sums alone: it has the trace of the second moment to look at here, not the indices). Synthetic people: 10^5 with 10
features, as in `benchmarks/local/learning.py`. ``--docs`` writes the tables of the appendix.
"""

import sys
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.metrics import roc_auc_score

from benchmarks.common import a9a, parts_at_hand
from benchmarks.driver import benchmark, option
from benchmarks.local.learning import collect, synthetic
from sottovoce.local import Protocol
from support.simulated_reports import simulate

SHARES = (0.001, 0.01, 0.05)
TRIED = 1_000_000
KINDS = ("false answers", "chosen index", "free seed")


def people(name: str) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """Return rows and labels to learn from and to test on, and the options of the protocol."""
    if name == "a9a":
        X, y, X_test, y_test, _ = a9a(0)
        X, X_test = (X > 0).toarray().astype(float), (X_test > 0).toarray().astype(float)
        return X, y, X_test, y_test, {"n_features": 123, "scale": 14.0**0.5}
    return *synthetic(100_000, 10, 1), *synthetic(50_000, 10, 2), {"n_features": 10}


def forged(kind: str, protocol: Protocol, t: Any, count: int, rng: np.random.Generator) -> Any:
    """Return the vectors that ``count`` attackers send."""
    if kind == "false answers":
        return simulate(protocol, np.tile(t, (count, 1)), rng)
    candidates = protocol.K * (TRIED if kind == "free seed" else 1)
    g = rng.standard_normal((count, len(t)))
    # the largest of so many normals: u^(1/N) is the law of the largest of N uniforms
    best = -ndtri(-np.expm1(np.log(rng.random(count)) / candidates))
    return g + (best - g @ t)[:, None] * t


def one_table(name: str, seeds: int, quick: bool) -> dict[str, Any]:
    X, y, X_test, y_test, options = people(name)
    rows: dict[str, list[tuple[str, ...]]] = {"AUC": [], "accuracy": [], "noticed": []}
    for epsilon in (2.0,) if quick else (1.0, 2.0, 4.0, 8.0):
        protocol = Protocol(epsilon=epsilon, **options)
        Z = protocol.encode_many(X) * y[:, None]
        mean = Z.mean(axis=0)
        found: dict[tuple[str, float], list[tuple[float, float, float]]] = {}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            honest = collect(protocol, Z, rng)
            aims = [-v / np.linalg.norm(v) for v in (mean, honest.fit().weights)]
            for kind, share in [("none", 0.0), *((kind, share) for kind in KINDS for share in SHARES)]:
                tried = []
                for t in aims if share else aims[:1]:
                    attacked = collect(protocol, Z[:0], rng)
                    attacked.moments.merge(honest.moments)
                    if share:
                        attacked.moments.add(forged(kind, protocol, t, round(share * len(Z)), rng))
                    scores = attacked.fit().decision_function(X_test)
                    figures = roc_auc_score(y_test, scores), np.mean((scores > 0) == (y_test > 0))
                    tried.append((*map(float, figures), float(not attacked.health().is_plausible)))
                found.setdefault((kind, share), []).append(min(tried))
        means = {key: np.mean(value, axis=0) for key, value in found.items()}
        for place, what in enumerate(rows):
            form = "{:.2f}" if what == "noticed" else "{:.3f}"
            cells = [" / ".join(form.format(means[kind, share][place]) for share in SHARES) for kind in KINDS]
            rows[what].append((f"{epsilon:g}", form.format(means["none", 0.0][place]), *cells))
        print(name, rows["AUC"][-1], rows["accuracy"][-1], file=sys.stderr, flush=True)
    head = ("epsilon", "no attackers", *(f"{kind}: 0.1 / 1 / 5 %" for kind in KINDS))
    return {f"poisoning {name} {what}": (head, lines) for what, lines in rows.items()}


@benchmark(page="measured/local.md", seeds=(3, 1), only=option(help="synthetic, a9a or both (default)"))
def main(run) -> None:
    for name in run.only.split(",") if run.only else parts_at_hand(("synthetic",), ("a9a",)):
        run.tables(one_table(name, run.seeds, run.quick))
