"""Differentially private stochastic coordinate descent (Damaskinos et al., AAAI 2021): as printed, and what is sound.

`algorithm` has the listings in plain numpy, with the printed sampling; `bounds` what can be said of them; the rest are
solver objects: ``DPLogisticRegression(solver=Published())``. Run ``python -m sottovoce.papers.dp_scd.reproduce``.

References
----------
.. [1] Damaskinos, Mendler-Duenner, Guerraoui, Papandreou, Parnell (2021). Differentially Private Stochastic Coordinate
   Descent. AAAI 2021; arXiv:2006.07272.
"""

from typing import Final

from sottovoce.central.solver import Solver
from sottovoce.papers.dp_scd.minibatch import Minibatch
from sottovoce.papers.dp_scd.primal import Primal
from sottovoce.papers.dp_scd.published import Published
from sottovoce.papers.dp_scd.sequential import Sequential

__all__ = ["SOLVERS", "Minibatch", "Primal", "Published", "Sequential"]

# for `sottovoce.report.verify_receipt(..., solvers=SOLVERS)`
SOLVERS: Final[tuple[type[Solver], ...]] = (Minibatch, Primal, Published, Sequential)
