"""The same person in the same row everywhere: identifiers compared in one place, or by private set intersection."""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazy_names

if TYPE_CHECKING:
    from sottovoce.vertical.alignment.aligned import AlignmentReport, AskedParty, PartyCounts, align_over

__all__ = ["AlignmentReport", "AskedParty", "PartyCounts", "align_over"]

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "aligned"))
