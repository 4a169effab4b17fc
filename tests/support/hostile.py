"""What owners of sites may have made of the code that they run; see `support.changed_site`.

Each function changes the process that it is called in. What a hostile coordinator does, and what came of it, it writes
into its kit.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def honest() -> None:
    """Change nothing: the site alone does not look at its own certificates."""


# ------------------------------------------------------------------ parties that lie


def _huge(answer: bytes) -> bytes:
    return answer + bytes(300_000_000)


def _raises(answer: bytes) -> bytes:
    raise RuntimeError("row 17: secret")


def _hangs(answer: bytes) -> bytes:
    time.sleep(3600)
    return answer


def _no_bytes(answer: bytes) -> Any:
    return {"answer": [1, 2, 3]}


LIES = {"huge": _huge, "raises": _raises, "hangs": _hangs, "object": _no_bytes}


def lies() -> None:
    """Make the party lie from some request of a run on: how and when stands in its file ``lie.txt``."""
    from sottovoce.vertical.flare.hardening.envelope import PartyEnd

    honest, counts = PartyEnd.answer, dict[str, int]()

    def answer(self: Any, raw: object, number: int, content: bytes, ledger: str) -> Any:
        name, first = (Path(os.environ["TRIAL_KIT"]) / "lie.txt").read_text().split()
        counts[self.run] = counts.get(self.run, 0) + 1  # the first one begins the run
        told = LIES[name](content) if counts[self.run] > int(first) else content
        return honest(self, raw, number, told, ledger) if isinstance(told, bytes) else told

    PartyEnd.answer = answer  # type: ignore[method-assign]


# ------------------------------------------------------------------ a coordinator that attacks its parties


def coordinator() -> Callable[[Any, Any], None]:
    """Return what attacks all parties once they are connected, and writes into ``attacks.json`` what came of it."""

    def attack(kit: Any, line: Any) -> None:
        out = Path(kit.folder) / "attacks.json"
        if out.exists() or set(line.connected()) != set(kit.federation.parties):
            return
        came = {
            f"{name}: {what}": _tried(send, name) for name in kit.federation.parties
            for what, send in _attacks(line._cell).items()
        }  # fmt: skip
        out.write_text(json.dumps(came))

    return attack


def _tried(send: Callable[[str], Any], name: str) -> str:
    try:
        reply = send(name)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"{reply.headers.get('cn__return_code')}: {bytes(reply.payload or b'')!r}"


def _attacks(cell: Any) -> dict[str, Callable[[str], Any]]:
    """Return what FLARE's cells could be asked: objects, other channels, messages for others and of others."""
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
    from nvflare.fuel.f3.message import Message

    def sent(channel: str, topic: str, payload: Any, headers: Any = None, target: str | None = None) -> Any:
        return lambda name: cell.send_request(
            channel, topic, target or name, Message(headers=dict(headers or {}), payload=payload), timeout=3.0
        )

    return {
        "an object": sent("sottovoce", "ask", {"raw": [1, 2]}),
        "no bytes": sent("sottovoce", "ask", None),
        "no envelope": sent("sottovoce", "ask", b"raw"),
        "another topic": sent("sottovoce", "here", b"raw"),
        "many": sent("cellnet.channel", "bulk", [{"target": "north"}]),
        "a certificate": sent("credential_manager", "key_exchange", {"a": b"b"}),
        "a command": sent("client_command", "shell", b"ls"),
        "of another": sent("sottovoce", "ask", b"raw", {MessageHeaderKey.CONN_URL: "tcp://localhost:1"}),
    }


# ------------------------------------------------------------------ a site of a joint computation with other code


def other_version() -> None:
    """Run another release, as its card says."""
    from sottovoce.vertical.engines import seat

    available = seat.available_engines
    seat.available_engines = lambda: {name: f"{version}.post1" for name, version in available().items()}
