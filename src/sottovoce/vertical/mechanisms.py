"""The closed list of what a party answers and of what users choose: one line for each mechanism.

A mechanism is a folder of `sottovoce.vertical.protocols`; it is not there until it has a line here. Forms for study
have none: they are handed to a party of one's own process and to an estimator as their class, see `Repertoire` and
`plan_class`.
"""

from collections.abc import Sequence
from typing import Any, Final

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.coordinator.plan import VerticalPlan
from sottovoce.vertical.protocol import Answer, Handler, Protocol
from sottovoce.vertical.protocols import (
    alignment,
    exact,
    frank_wolfe,
    general,
    local_models,
    scoring,
    secure,
)
from sottovoce.vertical.wire import Message

__all__ = [
    "ANSWERS", "ANSWERS_TO", "CLOSED", "HANDLERS", "MECHANISMS", "PROTOCOLS", "Repertoire", "plan_class",
    "repertoire",
]  # fmt: skip

PROTOCOLS: Final[tuple[Protocol, ...]] = (
    general.PROTOCOL,
    alignment.ALL_ROWS,
    alignment.ALIGNMENT,
    exact.PROTOCOL,
    local_models.PROTOCOL,
    *frank_wolfe.PROTOCOLS,
    *secure.PROTOCOLS,
    scoring.SCORE,
    scoring.COLUMNS,
)

MECHANISMS: Final[dict[str, type[VerticalPlan]]] = {
    each.plan.name: each.plan for each in PROTOCOLS if each.plan is not None
}
"""The plan of each ``mechanism=...`` of the dense estimators."""


class Repertoire:
    """What a party answers, and what its owner can allow, by the protocols that it knows.

    Parameters
    ----------
    protocols : sequence of Protocol
        Several may have the same handler: the leave for any of them will do.

    Attributes
    ----------
    handlers : dict
        By the kind of request; any other message is refused.
    answers : dict of Answer
        What the owner of a table can allow, by name.
    answers_to : dict
        For each request those answers of which one must be allowed; without any it is always answered.

    Raises
    ------
    ParameterError
        If one is no protocol, or two have different handlers of one kind or different answers of one name.
    """

    def __init__(self, protocols: Sequence[Protocol]) -> None:
        self.handlers: dict[type[Message], type[Handler[Any]]] = {}
        self.answers: dict[str, Answer] = {}
        codes: dict[int, type[Handler[Any]]] = {}
        for each in protocols:
            if not isinstance(each, Protocol):
                raise ParameterError(f"protocols must be Protocol objects; got {each!r}.")
            if each.answer is not None and self.answers.setdefault(each.answer.name, each.answer) != each.answer:
                raise ParameterError(f"two protocols have the name {each.answer.name!r} for what they give away.")
            for handler in each.handlers:
                if codes.setdefault(handler.request.code, handler) is not handler:
                    raise ParameterError(
                        f"two protocols answer messages of kind {handler.request.code}: "
                        f"{codes[handler.request.code].request.__name__} and {handler.request.__name__}."
                    )
                self.handlers[handler.request] = handler
        self.answers_to: dict[type[Message], tuple[Answer, ...]] = {
            request: tuple(each.answer for each in protocols if each.answer is not None and handler in each.handlers)
            for request, handler in self.handlers.items()
        }


CLOSED: Final = Repertoire(PROTOCOLS)
HANDLERS: Final = CLOSED.handlers
"""All requests that a party answers; any other message is refused."""
ANSWERS: Final = CLOSED.answers
"""What the owner of a table can allow, by name."""
ANSWERS_TO: Final = CLOSED.answers_to
"""For each request those answers of which one must be allowed; without any it is always answered."""


def repertoire(protocols: Any) -> Repertoire:
    """Return what a party answers that was given these forms for study beside the closed list.

    Raises
    ------
    ParameterError
        If they are no sequence of protocols, or two of them do not go together.
    """
    if not isinstance(protocols, Sequence) or isinstance(protocols, (str, bytes)):
        raise ParameterError(f"protocols must be a list of Protocol objects; got {protocols!r}.")
    return Repertoire((*PROTOCOLS, *protocols)) if protocols else CLOSED


def plan_class(mechanism: object) -> type[VerticalPlan] | None:
    """Return what an estimator was given in the place of a mechanism's name, a class of plans; None for a name.

    Raises
    ------
    ParameterError
        If it is a class that is none of plans, or one that takes the name of a mechanism that has a line here.
    """
    if not isinstance(mechanism, type):
        return None
    if not issubclass(mechanism, VerticalPlan):
        raise ParameterError(f"mechanism must be a name or a subclass of VerticalPlan; got {mechanism!r}.")
    if MECHANISMS.get(mechanism.name, mechanism) is not mechanism:
        raise ParameterError(
            f"mechanism={mechanism.__name__} is called {mechanism.name!r}, as another one is: receipts could not tell "
            "them apart. Give the plan a name of its own."
        )
    return mechanism
