"""Print the list of messages from the code: ``python docs/make_messages.py``. The site has it as a page."""

import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import get_args, get_type_hints

from sottovoce.vertical.mechanisms import ANSWERS, ANSWERS_TO
from sottovoce.vertical.protocol import Request
from sottovoce.vertical.wire import Message, Refused

HEAD = """# Messages of vertical training

A *request* goes from the coordinator to a party. The *reply* goes back. Any request may be answered by `Refused`
instead. Requests are listed by the file that they belong to.

A party answers a request only if its owner allows one of the names in the last column: `Party(..., answers=...)`. A
dash is always answered, because all that it gives away is public.

## What an owner allows

| name | what is given away | with a budget |
| --- | --- | --- |
"""
PUBLIC = "allowed unless said otherwise; nothing is charged"
BUDGET = {(True, False): "allowed unless said otherwise, and charged", (False, True): "charged where it is allowed"}


def first_line(thing: object) -> str:
    """Return the first line of a docstring, as a cell of a table."""
    return (thing.__doc__ or "").strip().split("\n", 1)[0].replace("|", "\\|")


def answered(request: type[Request], replies: tuple[type[Message], ...]) -> str:
    """Return the replies to a request, with what a payload is, as its docstring says it."""
    said = re.search(r"The answer is (.*?)\.(?: |$)", " ".join((request.__doc__ or "").split()))
    return ", ".join(f"`{reply.__name__}`" for reply in replies) + (f": {said[1]}" if said else "")


def listed(kind: type[Message]) -> str:
    """Return the fields of a message."""
    return ", ".join(f"`{each.name}`" for each in fields(kind)) or "nothing"  # type: ignore[arg-type]


def lines() -> Iterator[str]:
    """Yield the rows of the page."""
    for name, answer in ANSWERS.items():
        budget = PUBLIC if answer.public else BUDGET.get((answer.private, answer.charged), "never")
        yield f"| `{name}` | {answer.about} | {budget} |"
    replies: set[type[Message]] = {Refused}
    homes: dict[str, list[type[Request]]] = {}
    for request in ANSWERS_TO:
        homes.setdefault(request.__module__.split(".")[-1], []).append(request)
    for home, requests in homes.items():
        yield f"\n## {home}\n\n| code | request | fields | what it asks | reply | allowed by |\n{'| --- ' * 6}|"
        for request in requests:
            hint = get_args(get_type_hints(request.answer)["return"])[2]
            kinds = get_args(hint) or (hint,)
            replies.update(kinds)
            names = ", ".join(f"`{answer.name}`" for answer in ANSWERS_TO[request]) or "-"
            yield (
                f"| {request.code} | `{request.__name__}` | {listed(request)} | {first_line(request)} | "
                f"{answered(request, kinds)} | {names} |"
            )
    yield "\n## Replies\n\n| code | reply | fields | what it tells |\n| --- | --- | --- | --- |"
    for reply in sorted(replies, key=lambda kind: kind.code):
        yield f"| {reply.code} | `{reply.__name__}` | {listed(reply)} | {first_line(reply)} |"


def page() -> str:
    """Return the whole page."""
    return HEAD + "\n".join(lines()) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
