"""Columns of the same people at several organisations: training together without bringing the columns together."""

from sottovoce.vertical.aligned import AlignedParties, align
from sottovoce.vertical.comparison import Comparison
from sottovoce.vertical.estimators import VerticalLinearSVC, VerticalLogisticRegression, VerticalRidge
from sottovoce.vertical.frank_wolfe.estimators import VerticalLasso, VerticalSparseLogisticRegression
from sottovoce.vertical.parties import InProcessParties, Parties
from sottovoce.vertical.party import Part, Party
from sottovoce.vertical.splitting import split_columns

__all__ = [
    "AlignedParties",
    "Comparison",
    "InProcessParties",
    "Part",
    "Parties",
    "Party",
    "VerticalLasso",
    "VerticalLinearSVC",
    "VerticalLogisticRegression",
    "VerticalRidge",
    "VerticalSparseLogisticRegression",
    "align",
    "split_columns",
]
