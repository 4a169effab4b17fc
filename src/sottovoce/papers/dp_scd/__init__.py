"""DP-SCD (Damaskinos, Mendler-Duenner, Guerraoui, Papandreou, Parnell, AAAI 2021): as printed, and what is sound.

`algorithm` has the listings in plain numpy, with the printed sampling; `bounds` what can be said of them; the rest are
solver objects: ``DPLogisticRegression(solver=Published())``. Run ``python -m sottovoce.papers.dp_scd.reproduce``.
"""

from typing import Final

from sottovoce.central.plan import Plan
from sottovoce.papers.dp_scd.minibatch import Minibatch
from sottovoce.papers.dp_scd.primal import Primal
from sottovoce.papers.dp_scd.published import Published, Sequential

__all__ = ["SOLVERS", "Minibatch", "Primal", "Published", "Sequential"]

# for `sottovoce.report.verify_receipt(..., solvers=SOLVERS)`
SOLVERS: Final[tuple[type[Plan], ...]] = (Minibatch, Primal, Published, Sequential)
