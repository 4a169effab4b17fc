"""What a joint training opens, computed from one table of whole numbers that somebody sees: the plain computation."""

from itertools import pairwise

import numpy as np

from sottovoce.vertical.engines.programs import MoveDuals


class JointClear:
    """One table's exact sums, step by step, at whatever points are given.

    Parameters
    ----------
    plan : JointPlan
    tables : dict
        Columns by party.
    y : ndarray
    """

    def __init__(self, plan, tables, y):
        self.plan = plan
        self.parts = {name: plan.rows(name, table) for name, table in tables.items()}
        self.rows = np.column_stack([*self.parts.values()])
        self.labels = plan.whole_labels(y)
        self.ends = np.cumsum([part.shape[1] for part in self.parts.values()])
        self.duals = np.zeros(len(self.labels), np.int64)

    def moments(self):
        """Return what step 0 opens, without noise."""
        one, columns = self.plan, self.rows
        if one.training.with_labels:
            holder = list(self.parts).index(one.label_holder)
            columns = np.insert(columns, self.ends[holder], self.labels, axis=1)
        ends = np.cumsum([0, *one.moments.widths])
        blocks = [columns[:, low:high] for low, high in pairwise(ends)]
        found = []
        for block in blocks:
            upper = (block.T @ block)[np.triu_indices(block.shape[1])]
            found.append(np.concatenate([upper, one.constant * block.sum(axis=0)]) if one.constant else upper)
        return [*found, *(blocks[a].T @ blocks[b] for a, b in one.moments.pairs)]

    def step(self, step, points):
        """Return what a pass opens at these points, without noise; dual variables move."""
        z = sum(self.plan.margins(name, part, points[name]) for name, part in self.parts.items())
        program, y = self.plan.training.program(step), self.labels
        if isinstance(program, MoveDuals):
            terms = zip(program.factors, program.bounds, strict=True)
            target = y * program.offset - sum(np.clip(f * z - program.shift * y, -b, b) for f, b in terms)
            move = np.clip(target - self.duals, -program.clip, program.clip)
            self.duals = self.duals + move
        else:
            c = program.coefficients
            move = y * (c[0] + c[2] * z**2) + c[1] * z + c[3] * z**3
        sums = np.split(move @ self.rows, self.ends[:-1])
        return [*sums, np.array([move.sum()])] if self.plan.constant else sums
