"""Scores of people, and columns that are shown as they are."""

from sottovoce.vertical.protocol import Answer, Protocol
from sottovoce.vertical.protocols.scoring.party import ScoreHandler, ShowColumnHandler

__all__ = ["COLUMNS", "SCORE"]

SCORE = Protocol(
    Answer(
        "score",
        "one exact number for each of its rows, by a model that it trained or was given at home",
        beyond="a score tells about the row that is scored, which its budget does not cover; score other people's rows "
        "with a party object without a budget",
    ),
    handlers=(ScoreHandler,),
)
COLUMNS = Protocol(
    Answer(
        "columns",
        "show columns as they are",
        beyond="columns without noise tell all about their rows, which its budget does not cover; show other people's "
        "rows with a party object without a budget",
    ),
    handlers=(ShowColumnHandler,),
)
