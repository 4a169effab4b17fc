"""The compiled count of rows by prediction and label, for the recalibration of finished weights."""

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.rows import BLOCK
from sottovoce.central.kernels.scaled import clipped, predict, workspace

__all__ = ["binned_margins"]


@njit(**JIT)
def binned_margins(rows, y, w, nodes, parts, lo, hi, counts):  # type: ignore[no-untyped-def]
    """Share each of the rows lo to hi between the two nodes beside its prediction, ``parts`` of it in all.

    A prediction beyond the first or the last node counts as the node; NaN counts as 0. ``counts`` has a line for the
    labels -1 and one for +1, and an entry for each node; it is added to.
    """
    places, m, _, _ = workspace(rows.X)
    last = nodes.shape[0] - 1
    for first in range(lo, hi, BLOCK):
        count = min(BLOCK, hi - first)
        for k in range(count):
            places[k] = first + k
        predict(rows, w, places, count, m)
        for k in range(count):
            at = min(max(clipped(m[k], nodes[last]), nodes[0]), nodes[last])
            left = 0
            while left < last - 1 and at >= nodes[left + 1]:
                left += 1
            right_part = int(parts * (at - nodes[left]) / (nodes[left + 1] - nodes[left]))
            right_part = min(max(right_part, 0), parts)
            label = 1 if y[first + k] > 0.0 else 0
            counts[label, left] += parts - right_part
            counts[label, left + 1] += right_part
