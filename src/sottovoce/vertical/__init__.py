"""Columns of the same people at several organisations: training together without bringing the columns together."""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazy_names

if TYPE_CHECKING:
    from sottovoce.vertical.alignment import AlignedParties, align, split_columns
    from sottovoce.vertical.coordinator.parties import InProcessParties, Parties
    from sottovoce.vertical.engines import ComputeSite
    from sottovoce.vertical.estimators.dense import VerticalLinearSVC, VerticalLogisticRegression, VerticalRidge
    from sottovoce.vertical.estimators.prediction import Comparison
    from sottovoce.vertical.estimators.sparse import VerticalLasso, VerticalSparseLogisticRegression
    from sottovoce.vertical.party.party import Helper, Party
    from sottovoce.vertical.protocol import Part

__all__ = [
    "AlignedParties", "Comparison", "ComputeSite", "Helper", "InProcessParties", "Part", "Parties", "Party",
    "VerticalLasso", "VerticalLinearSVC", "VerticalLogisticRegression", "VerticalRidge",
    "VerticalSparseLogisticRegression", "align", "split_columns",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "AlignedParties": "alignment",
        "Comparison": "estimators.prediction",
        "ComputeSite": "engines",
        "Helper": "party.party",
        "InProcessParties": "coordinator.parties",
        "Part": "protocol",
        "Parties": "coordinator.parties",
        "Party": "party.party",
        "VerticalLasso": "estimators.sparse",
        "VerticalLinearSVC": "estimators.dense",
        "VerticalLogisticRegression": "estimators.dense",
        "VerticalRidge": "estimators.dense",
        "VerticalSparseLogisticRegression": "estimators.sparse",
        "align": "alignment",
        "split_columns": "alignment",
    },
)
