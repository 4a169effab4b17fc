"""The gradient that each Bernstein report gives, from the compiled loop that the pass over them runs."""

import numpy as np

from sottovoce.papers.ldp import server


def gradients(reports, tick, oracle, w, shares):
    """Return G(w) of every report, of shape (n, d)."""
    out = np.empty((len(reports), reports.shape[2] - 1))
    for report, shift, row in zip(reports, oracle.shifts(shares), out, strict=True):
        server._gradient(report, server._bracket(oracle, tick), shift, w, row)
    return out
