"""Hu, Liu, Kong, Niu (2019): ADMM sharing over columns at several parties, and why its noise protects nobody.

`algorithm` is Algorithm 1 and eq. (16) in one place; `printed` and `Perturbed` are the same over parties. What the
paper proves, and what of it holds: `theorem_1_conditions`, `bounds`, `attacks`, and ``docs/papers/admm.md``.
"""

from sottovoce.papers.admm.algorithm import admm_sharing, perturbed_admm_sharing
from sottovoce.papers.admm.attacks import (
    Lemma1Counterexample,
    distance_to_columns,
    identify_rows,
    labels_from_dual,
    recover_block,
    rows_to_know,
)
from sottovoce.papers.admm.bounds import (
    corollary_1,
    coupling,
    lemma_1_bound,
    rate_constant,
    start_value,
    theorem_3_std,
)
from sottovoce.papers.admm.conditions import theorem_1_conditions
from sottovoce.papers.admm.noise import PublishedNoise
from sottovoce.papers.admm.perturbed import PROTOCOL, Perturbed
from sottovoce.papers.admm.rounds import printed

__all__ = [
    "PROTOCOL",
    "Lemma1Counterexample",
    "Perturbed",
    "PublishedNoise",
    "admm_sharing",
    "corollary_1",
    "coupling",
    "distance_to_columns",
    "identify_rows",
    "labels_from_dual",
    "lemma_1_bound",
    "perturbed_admm_sharing",
    "printed",
    "rate_constant",
    "recover_block",
    "rows_to_know",
    "start_value",
    "theorem_1_conditions",
    "theorem_3_std",
]
