"""The same person in the same row everywhere: identifiers compared in one place, or by private set intersection."""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazy_names

if TYPE_CHECKING:
    from sottovoce.vertical.alignment.matching import (
        Alignment,
        AlignmentReport,
        AskedParty,
        PartyCounts,
        common_rows,
    )
    from sottovoce.vertical.alignment.sites import align_over, all_rows_over

__all__ = ["Alignment", "AlignmentReport", "AskedParty", "PartyCounts", "align_over", "all_rows_over", "common_rows"]

__getattr__ = lazy_names(
    __name__, {**dict.fromkeys(__all__, "matching"), "align_over": "sites", "all_rows_over": "sites"}
)
