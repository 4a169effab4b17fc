"""Compiled loops of vertical training: products of a party's columns in single precision."""

from typing import Any

from sottovoce._compiling import JIT, njit

_SUMS: dict[str, Any] = {**JIT, "fastmath": {"reassoc", "contract"}}  # sums in any order, on the vector units


@njit(**_SUMS)
def times_single(table, x, out):  # type: ignore[no-untyped-def]
    """Write table x, summed in double precision; a converted copy would take two to three times as long."""
    for i in range(table.shape[0]):
        total = 0.0
        for j in range(table.shape[1]):
            total += table[i, j] * x[j]
        out[i] = total


@njit(**_SUMS)
def back_single(table, v, out):  # type: ignore[no-untyped-def]
    """Add table' v to ``out`` in double precision."""
    for i in range(table.shape[0]):
        weight = v[i]
        for j in range(table.shape[1]):
            out[j] += table[i, j] * weight
