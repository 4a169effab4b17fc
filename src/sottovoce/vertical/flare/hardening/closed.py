"""What FLARE's cell does at a site, with everything closed that a run does not need.

A cell takes messages of many channels from whoever is in its network. It rebuilds objects from them, sends them on to
others, connects to addresses that they name, and reads settings from files below the folder it was started in. Here it
takes bytes of one channel, from those whom its certificates are about, and reads no file.
"""

import asyncio.sslproto
import logging
from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from sottovoce.exceptions import ParameterError

CHANNEL: Final = "sottovoce"
_SETTINGS: Final = {"allow_adhoc_conns": False, "heartbeat_interval": 10}
_RETRY_SECONDS: Final = 2  # between two attempts to connect; nobody listens but while a run goes on
_LOG: Final = logging.getLogger(__name__)


def use_our_settings() -> None:
    """Give FLARE its settings: it would look for files of them, which may name code to load."""
    from nvflare.fuel.f3.comm_config import CommConfigurator
    from nvflare.fuel.f3.sfm import conn_manager

    CommConfigurator._configuration, CommConfigurator._config_loaded = dict(_SETTINGS), True
    conn_manager.MAX_WAIT = _RETRY_SECONDS


def close_cell(cell: Any, name: str, peers: Collection[str], topic: str) -> None:
    """Let a cell, of this name, take requests of one topic of our channel from its peers, and answers to its own."""
    from nvflare.fuel.f3.cellnet.defs import MessagePropKey, ReturnCode
    from nvflare.fuel.f3.cellnet.utils import make_reply

    def refuse(message: Any) -> Any:
        endpoint = message.get_prop(MessagePropKey.ENDPOINT)
        peer = getattr(endpoint, "name", None)
        reason = why_refused(message.headers, peer, name, peers, topic)
        if not reason:
            return None
        _LOG.error("refused: a message of %.100r: %s", peer, reason)
        return make_reply(ReturnCode.AUTHENTICATION_ERROR)  # stays here: what is refused is not answered

    cell.add_incoming_filter("*", "*", refuse)


def why_refused(headers: Mapping[str, Any], peer: object, name: str, peers: Collection[str], topic: str) -> str:
    """Return why a message with these headers is refused before FLARE looks at it; empty if it is not.

    ``peer``: whose connection it came over, as its certificate says.
    """
    from nvflare.fuel.f3.cellnet.defs import CellChannel, CellChannelTopic, Encoding, MessageHeaderKey, MessageType

    if peer not in peers:
        return "nobody of that name takes part"
    if any(headers.get(key) != peer for key in (MessageHeaderKey.ORIGIN, MessageHeaderKey.FROM_CELL)):
        return "it is another site's, sent on"
    if headers.get(MessageHeaderKey.DESTINATION) != name:
        return "it is for another site: nothing is sent on here"
    if headers.get(MessageHeaderKey.PAYLOAD_ENCODING) not in (None, Encoding.BYTES, Encoding.NONE):
        return "it holds an object, and only bytes are taken"
    if headers.get(MessageHeaderKey.ENCRYPTED) or headers.get(MessageHeaderKey.CONN_URL):
        return "it asks for another line than this one"
    if headers.get(MessageHeaderKey.MSG_TYPE) == MessageType.REPLY:
        return ""
    asked = (headers.get(MessageHeaderKey.CHANNEL), headers.get(MessageHeaderKey.TOPIC))
    if headers.get(MessageHeaderKey.MSG_TYPE) == MessageType.REQ and asked in (
        (CHANNEL, topic), (CellChannel.CELLNET, CellChannelTopic.Bye)
    ):  # fmt: skip
        return ""
    return "a site answers requests of runs only"


def tell_refused_connections() -> None:
    """Log each TLS handshake that fails: Python tells of it only when it is debugged."""
    protocol: Any = asyncio.sslproto.SSLProtocol
    fatal_error = protocol._fatal_error
    if fatal_error.__module__ == __name__:  # for an earlier line
        return

    def told(self: Any, exc: BaseException, message: str = "Fatal error on transport") -> None:
        if message.startswith("SSL handshake failed"):
            peer = self._transport.get_extra_info("peername") if self._transport else None
            _LOG.error("refused: the connection with %s: %s", peer, exc)
        fatal_error(self, exc, message)

    protocol._fatal_error = told


# ------------------------------------------------------------------ FLARE itself


_LEAST: Final = (2, 9)  # before: CVE-2026-24178, CVE-2026-24186


def require_engine() -> None:
    """Refuse to go on where FLARE is missing or has known holes."""
    try:
        import fcntl  # noqa: F401
    except ImportError:
        raise ParameterError(
            "Parties at several organisations need Linux or another POSIX system: they lock files as such systems do. "
            "`sottovoce vertical simulate` and training in one process need none."
        ) from None
    remedy = "Install the extra: pip install 'sottovoce[vertical]'."
    try:
        found = version("nvflare")
    except PackageNotFoundError:
        raise ParameterError(f"Parties at several organisations need NVIDIA FLARE (nvflare>=2.9). {remedy}") from None
    if tuple(int(part) for part in found.split(".")[:2]) < _LEAST:
        raise ParameterError(f"nvflare {found} has known holes; 2.9 or later is needed. {remedy}")
