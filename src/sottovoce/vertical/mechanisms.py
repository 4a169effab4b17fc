"""The closed list of what a party answers and of what users choose: one line for each mechanism.

A mechanism is a folder of `sottovoce.vertical.protocols` (or of `sottovoce.published`, where its claim does not hold);
it is not there until it has a line here.
"""

from typing import Any, Final

from sottovoce.published import vertical_admm, vertical_frank_wolfe
from sottovoce.vertical.coordinator.plan import VerticalPlan
from sottovoce.vertical.protocol import Answer, Handler, Protocol
from sottovoce.vertical.protocols import (
    alignment,
    exact,
    frank_wolfe,
    general,
    local_models,
    noisy_admm,
    noisy_features,
    scoring,
    secure,
)
from sottovoce.vertical.wire import Message

__all__ = ["ANSWERS", "ANSWERS_TO", "HANDLERS", "MECHANISMS", "PROTOCOLS"]

PROTOCOLS: Final[tuple[Protocol, ...]] = (
    general.PROTOCOL,
    alignment.ALL_ROWS,
    alignment.ALIGNMENT,
    exact.PROTOCOL,
    local_models.PROTOCOL,
    noisy_features.PROTOCOL,
    noisy_admm.PROTOCOL,
    *frank_wolfe.PROTOCOLS,
    *secure.PROTOCOLS,
    vertical_admm.PROTOCOL,
    vertical_frank_wolfe.PROTOCOL,
    scoring.SCORE,
    scoring.COLUMNS,
)

MECHANISMS: Final[dict[str, type[VerticalPlan]]] = {
    each.plan.name: each.plan for each in PROTOCOLS if each.plan is not None
}
"""The plan of each ``mechanism=...`` of the dense estimators."""

HANDLERS: Final[dict[type[Message], type[Handler[Any]]]] = {
    handler.request: handler for each in PROTOCOLS for handler in each.handlers
}
"""All requests that a party answers; any other message is refused."""

ANSWERS: Final[dict[str, Answer]] = {each.answer.name: each.answer for each in PROTOCOLS if each.answer is not None}
"""What the owner of a table can allow, by name."""

ANSWERS_TO: Final[dict[type[Message], tuple[Answer, ...]]] = {
    request: tuple(each.answer for each in PROTOCOLS if each.answer is not None and handler in each.handlers)
    for request, handler in HANDLERS.items()
}
"""For each request those answers of which one must be allowed; without any it is always answered."""
