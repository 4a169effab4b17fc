"""Which requests a party answers: its owner names what it allows, and everything else is refused in words.

The names are those of the protocols (`sottovoce.vertical.mechanisms.ANSWERS`). Sizes and declared bounds, whether the
budget covers a plan, and the end of a session are public and always answered.
"""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AnySet
from typing import Any, Final

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.mechanisms import ANSWERS
from sottovoce.vertical.protocol import Answer
from sottovoce.vertical.wire import Message

PRIVATE: Final = frozenset(name for name, answer in ANSWERS.items() if answer.private)
PUBLIC: Final = frozenset(name for name, answer in ANSWERS.items() if answer.public)


def allowed_answers(answers: Any, *, limited: bool, known: Mapping[str, Answer] = ANSWERS) -> frozenset[str]:
    """Return the names that a party allows, given what its owner said, whether it has a budget, and what it knows.

    Raises `ParameterError` if a name is none, or is one that no budget can be charged for.
    """
    if answers is None:
        return frozenset(name for name, each in known.items() if each.private or each.public or not limited)
    listed = ", ".join(map(repr, sorted(known)))
    if isinstance(answers, (str, bytes)) or not isinstance(answers, (AnySet, Sequence)):
        raise ParameterError(f"answers must be a set of names out of {listed}; got {answers!r}.")
    for name in answers:
        if not isinstance(name, str) or name not in known:
            raise ParameterError(f"answers must be a set of names out of {listed}; got {name!r} among them.")
    beyond = sorted(name for name in answers if not _covered(known[name]))
    if limited and beyond:
        raise ParameterError(
            f"answers has {beyond[0]!r}, which has no noise, so that no budget can be charged for it. Leave it out, or "
            "make another party object without a budget for it, with the rows of other people."
        )
    return frozenset(answers)


def why_unanswered(request: type[Message], names: Sequence[Answer], answers: Collection[str], limit: str | None) -> str:
    """Return why a request is not answered by a party that allows ``answers``; empty if it is.

    One of ``names`` must be among them, where there are any; ``limit`` is the party's budget in words, None where it
    has none.
    """
    if not names or any(each.name in answers for each in names):
        return ""
    if limit is not None and names[0].beyond:
        return names[0].beyond
    allowed = ", ".join(map(repr, sorted(answers))) or "nothing"
    why = f"it does not answer {request.__name__}, which is part of {' and '.join(repr(each.name) for each in names)}"
    if limit is not None and not _covered(names[0]):
        why = f"its budget is {limit}, none covers {names[0].name!r}, and {why}"
    return f"{why}; its owner allows {allowed}: see Party(..., answers=...)"


def _covered(answer: Answer) -> bool:
    """Tell whether a budget can be charged for it, or need not be."""
    return answer.private or answer.charged or answer.public
