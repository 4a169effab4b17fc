"""Hu, Liu, Kong, Niu (2019): ADMM sharing over columns at several parties, and why its noise protects nobody.

`algorithm` is Algorithm 1 and eq. (16) in the paper's letters; `admm` is the method with other forms, losses and
penalties, and `noisy_admm` a form whose noise does protect. What the paper proves, and what of it holds:
`theorem_1_conditions`, `bounds`, `attacks`, and ``docs/papers/admm.md``.
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
from sottovoce.papers.admm.noisy import noisy_admm
from sottovoce.papers.admm.sharing import Penalty, admm, usual_rho

__all__ = [
    "Lemma1Counterexample", "Penalty", "admm", "admm_sharing", "corollary_1", "coupling", "distance_to_columns",
    "identify_rows", "labels_from_dual", "lemma_1_bound", "noisy_admm", "perturbed_admm_sharing", "rate_constant",
    "recover_block", "rows_to_know", "start_value", "theorem_1_conditions", "theorem_3_std", "usual_rho",
]  # fmt: skip
