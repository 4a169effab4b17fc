"""A party without a table: it only computes with others, so that no two of them see everything."""

from typing import Any, ClassVar

import numpy as np

from sottovoce.vertical.engines.site import ComputeSite
from sottovoce.vertical.party.journal import Journal
from sottovoce.vertical.party.party import Party


class Helper(Party):
    """A party that has no columns and no people, and computes with those who have (``mechanism="secure"``).

    It sees random shares of the others' numbers, adds its share of the noise, and gives nothing away. Other mechanisms,
    predictions and alignments leave it out.

    Parameters
    ----------
    name : str
        Name of the organisation; public.
    computing : ComputeSite or None
        Where and with whom it computes; None only with parties of its own process.
    journal : Journal or None
        As for `Party`.

    Examples
    --------
    >>> from sottovoce.vertical import Helper
    >>> Helper("notary")
    Helper('notary')
    """

    is_helper: ClassVar[bool] = True

    def __init__(self, name: str, *, computing: ComputeSite | None = None, journal: Journal | None = None) -> None:
        super().__init__(np.zeros((1, 1)), name=name, computing=computing, journal=journal, answers={"secure"})
        self._table = np.zeros((0, 0))
        self._whole = (self._table, None, None)

    def __repr__(self) -> str:
        return f"Helper({self.name!r})"

    def take(self, rows: Any) -> "Helper":
        """Return itself: it has no rows."""
        return self
