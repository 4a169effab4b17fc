"""Accuracy of noisy ADMM on a9a: 66 columns and the labels at party 1, 57 at party 2.

    python -m benchmarks.vertical.noisy [--seeds 5] [--only noisy-admm] [--alpha 1,14] [--quick]

Medians of test accuracy in per cent; delta = 1e-5, one person's rows at both parties replaced together. Row bounds are
public: eight and six raw attributes, one-hot encoded. ``--alpha`` is in units of 1/n. Beside them: party 1 alone, and
all columns without privacy. "No message": nothing crosses but the labels, and nothing covers what each party keeps.
"""

import sys
from typing import Any

import numpy as np

from benchmarks.common import data_folder, keep, make_parser, show
from benchmarks.vertical.data import Parties, a9a_parties
from sottovoce.losses import Logistic
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.coordinator.plan import PublicFacts, SumOfScores, Term, read_public_facts
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.protocols.exact.lbfgs import lbfgs
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.protocols.general.messages import Keep, Prepare
from sottovoce.vertical.protocols.noisy_admm.plan import NoisyAdmmPlan
from sottovoce.vertical.wire import Done

EPSILONS = (0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5
MODEL = "a9a"
PLANS: dict[str, tuple[Any, dict[str, Any]]] = {
    "noisy-admm": (NoisyAdmmPlan, {}),
    "noisy-admm, public labels": (NoisyAdmmPlan, {"labels_public": True}),
    "noisy-admm, public labels, 3 messages": (NoisyAdmmPlan, {"labels_public": True, "max_iter": 3}),
    "noisy-admm, no message": (NoisyAdmmPlan, {"max_iter": 0, "norm_bound": 10.0, "target_bound": 2.0}),
    "noisy-admm, public labels, no message": (
        NoisyAdmmPlan,
        {"labels_public": True, "max_iter": 0, "norm_bound": 10.0, "target_bound": 2.0},
    ),
}


def parties_of(data: Parties, seed: int) -> tuple[InProcessParties, InProcessParties]:
    """Return the parties with their training rows, and the same with their test rows."""
    both = []
    for X in (data.X, data.X_test):
        first = Party(X[:, :66], name="first", data_norm=np.sqrt(8.0)).seed(2 * seed)
        second = Party(X[:, 66:], name="second", data_norm=np.sqrt(6.0), nonnegative=True).seed(2 * seed + 1)
        both.append(InProcessParties([first, second]))
    return both[0], both[1]


def hand_over(train: InProcessParties, test: InProcessParties) -> None:
    """Let the test parties adopt the parts that the training left."""
    for name, party in train.parties.items():
        if MODEL in party._models:
            test.parties[name].adopt(MODEL, party.part(MODEL))


def accuracy(scores: Any, y: Any) -> float:
    """Return the share of right signs, in per cent."""
    return 100.0 * float(np.mean((scores > 0) == (y > 0)))


def without_noise(data: Parties, names: tuple[str, ...], alpha: float) -> float:
    """Return the accuracy of exact training on the columns of ``names``."""
    train, test = parties_of(data, 0)
    some, l2 = train.only(*names), alpha * len(data.y)
    for name in names:
        some.ask(name, Prepare(l2, 0.0, -np.inf, np.inf, int(name == "first")), Done)
    lbfgs(some, ScoreProblem(Logistic(), data.y), l2=l2)
    some.exchange(Keep(MODEL), Done)
    hand_over(train, test)
    return accuracy(SumOfScores(dict.fromkeys(names, Term())).scores(test.only(*names), MODEL), data.y_test)


def private(data: Parties, kind: str, epsilon: float, alpha: float, seed: int) -> float:
    """Return the accuracy of one private training."""
    make, options = PLANS[kind]
    train, test = parties_of(data, seed)
    facts = PublicFacts(n_samples=len(data.y), descriptions=read_public_facts(train), label_holder="first")
    plan = make(facts=facts, loss=Logistic(), alpha=alpha, fit_intercept=True, epsilon=epsilon, delta=DELTA, **options)
    solution = plan.solve(train, data.y, MODEL, Streams(1000 + seed))
    hand_over(train, test)
    return accuracy(solution.scorer.scores(test, MODEL), data.y_test)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=None, help="default 5; 1 with --quick")
    parser.add_argument("--only", default=",".join(PLANS))
    parser.add_argument("--alpha", default=None, help="default 1,14; 1 with --quick")
    given = parser.parse_args()
    seeds, alphas = given.seeds or (1 if given.quick else 5), given.alpha or ("1" if given.quick else "1,14")
    data = a9a_parties(data_folder())
    rows, results = [], []
    for times in map(float, alphas.split(",")):
        alpha = times / len(data.y)
        for label, names in (("party 1 alone", ("first",)), ("all columns, not private", ("first", "second"))):
            found = without_noise(data, names, alpha)
            rows.append([label, f"{times:g}", *[f"{found:.2f}"] * len(EPSILONS)])
            results.append({"mechanism": label, "alpha n": times, "accuracy": found})
        for kind in PLANS:
            if kind not in given.only.split(",") and kind.split(",")[0] not in given.only.split(","):
                continue
            cells = []
            for epsilon in EPSILONS:
                runs = [private(data, kind, epsilon, alpha, seed) for seed in range(seeds)]
                cells.append(f"{np.median(runs):.2f}")
                results.append({"mechanism": kind, "alpha n": times, "epsilon": epsilon, "accuracy": runs})
                print(kind, times, epsilon, np.round(runs, 2).tolist(), file=sys.stderr, flush=True)
            rows.append([kind, f"{times:g}", *cells])
    show("a9a, test accuracy in %", ["mechanism", "alpha n", *(f"epsilon {e:g}" for e in EPSILONS)], rows)
    keep("vertical_noisy", results)


if __name__ == "__main__":
    main()
