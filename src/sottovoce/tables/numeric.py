"""NumericColumn: a number with public bounds, encoded on a linear or logarithmic scale, or by public bins."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sottovoce._validation import bounds, in_order, number
from sottovoce.exceptions import SchemaError
from sottovoce.tables._toml import plain_number
from sottovoce.tables.cells import Cells, Mask
from sottovoce.tables.column import INDICATOR, Block, Column, scaled, within
from sottovoce.tables.notation import NumberNotation


@dataclass(frozen=True)
class NumericColumn(Column):
    r"""A number between public bounds.

    A value :math:`v` within the bounds :math:`[a, b]` becomes one feature in [-1, 1],

    .. math:: 2 \frac{v - a}{b - a} - 1 \quad\text{or}\quad 2 \frac{\log(1 + v - a)}{\log(1 + b - a)} - 1

    on the linear or the logarithmic scale; or, with ``bins``, one feature a bin of which the one that holds the value
    is 1. A missing value becomes 0 in all features, the middle of the scale or no bin, unless ``missing`` says else.

    Parameters
    ----------
    name : str
        Name of the column in the table.
    bounds : (float, float)
        Public. Lowest and highest value.
    scale : {"linear", "log"}, default="linear"
        The logarithm is that of 1 + value - low: it suits amounts and counts, whose unit is small against the range.
    bins : tuple of float or None, default=None
        Public. The inner edges, ascending and between the bounds; a value equal to an edge belongs to the bin above.
    outside : {"clip", "error"} or None, default=None
        What happens to a value beyond the bounds: it is moved onto the nearer bound, or refused. None clips a feature
        and refuses a label.
    missing : float, "indicator" or None, default=None
        Public. What a missing value becomes: this number, within the bounds; or one more feature, ``"NAME is
        missing"``, which is 1 for it, all others being 0. None: 0 in all features.
    decimal : {".", ","}, default="."
        The decimal mark of texts.
    thousands : {" ", ".", ",", "'"} or None, default=None
        The mark after each thousand in texts; a space is also one that does not break.
    symbol : str or None, default=None
        What may stand before or behind the numbers in texts, such as ``"%"``: it is left out, so 12 % is read as 12.

    Raises
    ------
    SchemaError
        If an argument is wrong, or bins and the logarithmic scale are both asked for.

    Notes
    -----
    Privacy: bounds, edges and scale are public facts. Each row is encoded by itself; nothing is computed across rows.

    Examples
    --------
    >>> NumericColumn("age", bounds=(17, 90), bins=(25, 65)).feature_names
    ('age<25', '25<=age<65', 'age>=65')
    """

    type_name: ClassVar[str] = "numeric"
    needed = "bounds", "Write bounds = [low, high] from public knowledge, not from the data."
    choices = {"scale": ("linear", "log"), "outside": ("clip", "error")}  # noqa: RUF012 - of the base, a ClassVar

    _: KW_ONLY
    bounds: tuple[float, float]
    scale: str = "linear"
    bins: tuple[float, ...] | None = None
    outside: str | None = None
    missing: float | str | None = None
    decimal: str = "."
    thousands: str | None = None
    symbol: str | None = None

    def _checked(self, where: str) -> dict[str, Any]:
        low, high = bounds(f"{where}.bounds", self.bounds)
        checked: dict[str, Any] = {"bounds": (low, high)}
        if self.bins is not None:
            checked["bins"] = self._checked_bins(where, low, high)
        if self.missing not in (None, INDICATOR):
            remedy = f'A missing value is read as it; "{INDICATOR}" makes a feature of its own.'
            checked["missing"] = number(f"{where}.missing", self.missing, at_least=low, at_most=high, remedy=remedy)
        self._notation().check(where)
        return checked

    def _notation(self) -> NumberNotation:
        return NumberNotation(self.decimal, self.thousands, self.symbol)

    def _checked_bins(self, where: str, low: float, high: float) -> tuple[float, ...]:
        wanted = "a list of the inner edges, at least one"
        edges = tuple(number(f"{where}.bins", edge) for edge in in_order(f"{where}.bins", self.bins or 0, wanted))
        if any(not first < second for first, second in pairwise(edges)):
            raise SchemaError(f"{where}.bins must ascend without repetition; got {list(edges)!r}.")
        if not (low < edges[0] and edges[-1] < high):
            raise SchemaError(
                f"{where}.bins must lie strictly between the bounds {low:g} and {high:g}; got {list(edges)!r}."
            )
        if self.scale != "linear":
            raise SchemaError(
                f"{where} has both bins and scale = {self.scale!r}: bins need no scale. Drop one of them."
            )
        return edges

    def _value_names(self) -> tuple[str, ...]:
        if self.bins is None:
            return (self.name,)
        edges = [str(plain_number(edge)) for edge in self.bins]
        inner = (f"{low}<={self.name}<{high}" for low, high in pairwise(edges))
        return (f"{self.name}<{edges[0]}", *inner, f"{self.name}>={edges[-1]}")

    @property
    def _scale(self) -> tuple[float, str] | None:
        low, high = self.bounds
        if self.bins is not None:
            return None
        if self.scale == "linear":
            return 2.0 / (high - low), f"for each 1 more of {self.name}, from {low:g} to {high:g}"
        return 2.0, f"from {self.name} = {low:g} to {high:g}, by the logarithm"

    def _encoded(self, cells: Cells, missing: Collection[str]) -> tuple[Block, Mask]:
        numbers, absent = self._bounded(cells, missing, self.outside or "clip")
        if isinstance(self.missing, float):
            numbers, absent = np.where(absent, self.missing, numbers), np.zeros_like(absent)
        if self.bins is not None:
            return (np.searchsorted(np.asarray(self.bins), numbers, side="right"), np.ones(len(numbers))), absent
        low, high = self.bounds
        if self.scale == "log":
            numbers, low, high = np.log1p(numbers - low), 0.0, np.log1p(high - low)
        return (np.zeros(len(numbers), np.int64), scaled(numbers, low, high)), absent

    def refuse_as_target(self) -> None:
        super().refuse_as_target()
        if self.scale != "linear" or self.bins is not None:
            raise SchemaError(
                f"column {self.name!r} is the target: a target takes bounds, but neither scale nor bins. Remove them, "
                "or transform the labels in the table."
            )

    def _labels(self, cells: Cells, missing: Collection[str]) -> tuple[npt.NDArray[Any], Mask]:
        return self._bounded(cells, missing, self.outside or "error")

    def _bounded(self, cells: Cells, missing: Collection[str], outside: str) -> tuple[npt.NDArray[Any], Mask]:
        notation = self._notation()
        numbers, absent = cells.numbers(missing, notation if notation.entries() else None)
        return within(cells, numbers, absent, self.bounds, outside, "{:g}".format), absent
