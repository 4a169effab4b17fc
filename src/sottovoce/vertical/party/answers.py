"""Which requests a party answers: its owner names what it allows, and everything else is refused in words.

====================  ============================================================================================
``"local-models"``    train a private model of its columns on labels that it is sent, and keep it
``"noisy-features"``  send its columns once, with noise
``"noisy-admm"``      send clipped scores, with noise
``"frank-wolfe"``     name columns by private selection, and share some with noise
``"exact"``           train without noise, and show spectra and slopes: whoever asks learns the columns
``"published"``       what the papers print, for study
``"score"``           one exact number for each of its rows, by a model that it trained or was given at home
``"columns"``         show columns as they are
``"foreign-weights"`` keep weights that it did not train, so that they can be scored: one exact sum over the columns of
                      each row, of the asker's choice
====================  ============================================================================================

Sizes and declared bounds, whether the budget covers a plan, and the end of a session are public and always answered.
"""

from collections.abc import Collection, Sequence
from collections.abc import Set as AnySet
from typing import Any, Final

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.wire import (
    AdmmStart,
    AdmmStep,
    Afford,
    BallSelect,
    BallStart,
    BallStep,
    BallVertex,
    Close,
    Describe,
    Keep,
    KeepWeights,
    LbfgsDirection,
    LbfgsGradient,
    LbfgsMove,
    LbfgsStart,
    Message,
    NoisyStart,
    NoisyStep,
    Prepare,
    PublishedBallStart,
    PublishedBallStep,
    PublishedStart,
    Score,
    SendFeatures,
    ShareColumn,
    ShowColumn,
    ShowFeatures,
    Spectrum,
    TrainOnBall,
    TrainOnLabels,
)

__all__ = ["ANSWERS", "PRIVATE", "allowed_answers", "why_unanswered"]

PRIVATE: Final = frozenset({"local-models", "noisy-features", "noisy-admm", "frank-wolfe"})
ANSWERS: Final = PRIVATE | {"exact", "published", "score", "columns", "foreign-weights"}
_BUDGETED: Final = PRIVATE | {"published"}  # what a budget can be charged for

# a request is answered where one of its names is allowed; without a name, always
_NAMES: Final[dict[type[Message], tuple[str, ...]]] = {
    Describe: (),
    Afford: (),
    Close: (),
    Prepare: ("exact", "noisy-admm", "published"),
    AdmmStart: ("exact", "published"),
    AdmmStep: ("exact", "published"),
    LbfgsStart: ("exact",),
    LbfgsGradient: ("exact",),
    LbfgsDirection: ("exact",),
    LbfgsMove: ("exact",),
    Spectrum: ("exact",),
    BallVertex: ("exact",),
    TrainOnLabels: ("local-models",),
    SendFeatures: ("noisy-features",),
    NoisyStart: ("noisy-admm",),
    NoisyStep: ("noisy-admm",),
    TrainOnBall: ("frank-wolfe",),
    BallStart: ("frank-wolfe",),
    BallSelect: ("frank-wolfe",),
    BallStep: ("frank-wolfe",),
    ShareColumn: ("frank-wolfe",),
    PublishedStart: ("published",),
    PublishedBallStart: ("published",),
    PublishedBallStep: ("published",),
    Keep: ("local-models", "noisy-admm", "exact", "published"),
    KeepWeights: ("foreign-weights", "frank-wolfe"),
    Score: ("score",),
    ShowFeatures: ("columns",),
    ShowColumn: ("columns",),
}

_BEYOND: Final = {
    "score": (
        "a score tells about the row that is scored, which its budget does not cover; score other people's rows with a "
        "party object without a budget"
    ),
    "columns": (
        "columns without noise tell all about their rows, which its budget does not cover; show other people's rows "
        "with a party object without a budget"
    ),
}


def allowed_answers(answers: Any, *, limited: bool) -> frozenset[str]:
    """Return the names that a party allows, given what its owner said and whether it has a budget.

    Raises
    ------
    ParameterError
        If a name is none, or is one that no budget can be charged for.
    """
    if answers is None:
        return PRIVATE if limited else ANSWERS
    listed = ", ".join(map(repr, sorted(ANSWERS)))
    if isinstance(answers, (str, bytes)) or not isinstance(answers, (AnySet, Sequence)):
        raise ParameterError(f"answers must be a set of names out of {listed}; got {answers!r}.")
    for name in answers:
        if not isinstance(name, str) or name not in ANSWERS:
            raise ParameterError(f"answers must be a set of names out of {listed}; got {name!r} among them.")
    beyond = sorted(set(answers) - _BUDGETED)
    if limited and beyond:
        raise ParameterError(
            f"answers has {beyond[0]!r}, which has no noise, so that no budget can be charged for it. Leave it out, or "
            "make another party object without a budget for it, with the rows of other people."
        )
    return frozenset(answers)


def why_unanswered(request: type[Message], answers: Collection[str], limit: str | None) -> str:
    """Return why a request is not answered by a party that allows ``answers``; empty if it is.

    ``limit`` is its budget in words, None where it has none.
    """
    names = _NAMES[request]
    if not names or any(name in answers for name in names):
        return ""
    if limit is not None and names[0] in _BEYOND:
        return _BEYOND[names[0]]
    allowed = ", ".join(map(repr, sorted(answers))) or "nothing"
    what = f"{request.__name__}, which is part of {' and '.join(map(repr, names))}"
    if limit is not None and names[0] not in _BUDGETED:
        return f"its budget is {limit}, and none covers {what}; its owner allows {allowed}"
    return f"it does not answer {what}; its owner allows {allowed}: see Party(..., answers=...)"
