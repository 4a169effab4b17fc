"""The closed list of what a party answers: whose leave it needs, and the requests.

A mechanism is a file of `sottovoce.vertical.requests`; no party knows it until it has a line here. Forms for study have
none: they are handed to a party of one's own process, see `Repertoire`. Nothing here knows a coordinator.
"""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AnySet
from typing import Any, Final

from sottovoce._validation import in_order
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.protocol import Protocol, Request
from sottovoce.vertical.requests import alignment, frank_wolfe, general, local_models, secure
from sottovoce.vertical.wire import Message

PROTOCOLS: Final = (
    Protocol("", "what everybody may know", (general.Describe, general.Afford, general.Close)),
    Protocol(
        "alignment",
        "tell which of the people whom it is asked about it holds, and how many it holds; take those in common",
        (alignment.Intersect, alignment.AlignTo),
        public=True,
    ),
    Protocol(
        "exact",
        "show its columns as they are, for a training without noise, and keep weights that it did not train, so that "
        "they can be scored: one exact sum over the columns of each row, of the asker's choice",
        (general.ShowColumns, general.KeepWeights),
    ),
    Protocol(
        "local-models",
        "train a private model of its columns on labels that it is sent, and keep it",
        (local_models.TrainOnLabels,),
        private=True,
    ),
    Protocol("frank-wolfe", "name columns by private selection", (frank_wolfe.TrainOnBall,), private=True),
    Protocol(
        "secure",
        "compute noisy sums over all parties' columns with the partners that its owner named, by an engine of secure "
        "computation, and keep its part of the model that follows from them",
        (secure.Invite, secure.Connect, secure.Join, secure.Poll),
        private=True,
    ),
    Protocol(
        "score",
        "one exact number for each of its rows, by a model that it trained or was given at home",
        (general.Score,),
        beyond="a score tells about the row that is scored, which its budget does not cover; score other people's rows "
        "with a party object without a budget",
    ),
)


class Repertoire:
    """What a party answers, and what its owner can allow, by the protocols that it knows.

    Raises `ParameterError` if one is no protocol, two have different requests of one kind, or two different ones one
    name.

    ``answers``: what the owner of a table can allow, by name.
    ``answers_to``: for each request those protocols of which one must be allowed; without any it is always answered.
    Any other message is refused.
    ``kinds``: the same requests, by their numbers.
    """

    def __init__(self, protocols: Sequence[Protocol]) -> None:
        self.answers: dict[str, Protocol] = {}
        self.answers_to: dict[type[Request], tuple[Protocol, ...]] = {}
        self.kinds: dict[int, type[Request]] = {}
        for each in protocols:
            if not isinstance(each, Protocol):
                raise ParameterError(f"protocols must be Protocol objects; got {each!r}.")
            if each.name and self.answers.setdefault(each.name, each) != each:
                raise ParameterError(f"two protocols have the name {each.name!r} for what they give away.")
            for request in each.requests:
                if self.kinds.setdefault(request.code, request) is not request:
                    raise ParameterError(
                        f"two protocols answer messages of kind {request.code}: "
                        f"{self.kinds[request.code].__name__} and {request.__name__}."
                    )
                leave = (each,) if each.name else ()
                self.answers_to[request] = self.answers_to.get(request, ()) + leave


CLOSED: Final = Repertoire(PROTOCOLS)
ANSWERS: Final = CLOSED.answers
"""What the owner of a table can allow, by name."""
ANSWERS_TO: Final = CLOSED.answers_to
"""All requests that a party answers, each with those protocols of which one must be allowed."""
NAMES: Final = {code: kind.__name__ for code, kind in CLOSED.kinds.items()}
"""The same by number, for who writes down what was asked."""


def repertoire(protocols: Any) -> Repertoire:
    """Return what a party answers that was given these forms for study beside the closed list.

    Raises `ParameterError` if they are no sequence of protocols, or two of them do not go together.
    """
    given = in_order("protocols", protocols, "a list of Protocol objects")
    return Repertoire((*PROTOCOLS, *given)) if given else CLOSED


PRIVATE: Final = frozenset(name for name, answer in ANSWERS.items() if answer.private)


def allowed_answers(answers: Any, *, limited: bool, known: Mapping[str, Protocol] = ANSWERS) -> frozenset[str]:
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
    beyond = sorted(name for name in answers if not known[name].is_covered)
    if limited and beyond:
        raise ParameterError(
            f"answers has {beyond[0]!r}, which has no noise, so that no budget can be charged for it. Leave it out, or "
            "make another party object without a budget for it, with the rows of other people."
        )
    return frozenset(answers)


def why_unanswered(
    request: type[Message], names: Sequence[Protocol], answers: Collection[str], limit: str | None
) -> str:
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
    if limit is not None and not names[0].is_covered:
        why = f"its budget is {limit}, none covers {names[0].name!r}, and {why}"
    return f"{why}; its owner allows {allowed}: see Party(..., answers=...)"
