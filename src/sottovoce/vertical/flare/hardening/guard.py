"""FLARE's processes at a party, able to do what a run needs and nothing else.

FLARE leaves it to its *server* whether a client checks a request against the client's own authorization. A coordinator
that runs changed code, or a party that sends through the coordinator's server, could have files below the kit printed,
the site restarted, the logging of a job replaced by objects of its choice, which runs code, or the folder ``state``
deleted by a job of that name. So a site's processes are started through this module:
``python -m sottovoce.vertical.flare.hardening.guard MODULE ARGUMENTS`` takes all requests to a party away but those
that start, follow and end runs, and then runs FLARE's module. What is new in a later FLARE is away too.

At all sites FLARE reads its settings from the kit alone (not from files that a run brought), and tells of connections
that were refused, and of a party that is there twice.
"""

import asyncio.sslproto
import gc
import io
import logging
import lzma
import os
import re
import runpy
import sys
import threading
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sottovoce.vertical.flare.hardening.closed import PURPOSES, job_text
from sottovoce.vertical.flare.hardening.waits import RUN, leave, look_often

TWICE: Final = "another process of this site has registered with the coordinator: its kit is in use twice"
"""What a party's process is told, and its owner by its command, where a later process took its place."""

_LOGGER: Final = logging.getLogger("sottovoce.guard")

_DEPLOY: Final = "train.deploy"
_OF_JOB: Final = "train.notify_job_status"
_REQUESTS: Final = frozenset({
    "scheduler.cancel_resource", "scheduler.check_resource", "sys.report_version", "train.abort", "train.abort_task",
    "train.check_status", "train.delete_run", "train.start_job", _DEPLOY, _OF_JOB,
})  # fmt: skip
"""Requests that a site's process answers."""

_JOB_COMMANDS: Final = frozenset({"abort", "abort_task", "check_status", "shutdown"})
"""Commands that a run's process answers: such as end it."""

_PARENT_SECONDS: Final = 1.0  # between two looks at whether it is still there
_COORDINATOR: Final = "server"
MAIN: Final = {
    "coordinator": ("nvflare.private.fed.app.server.server_train", "fed_server.json"),
    "party": ("nvflare.private.fed.app.client.client_train", "fed_client.json"),
}
"""FLARE's module for each kind of site, and the file that it starts with."""

_OF_COORDINATOR: Final = (MAIN["coordinator"][0], "nvflare.private.fed.app.server.runner_process")
_NETWORK_REQUESTS: Final = frozenset({"_do_heartbeat", "_do_stop", "_do_stop_cell"})
_JOB: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_SIGNATURES: Final = (".__nvfl_sig.json", ".__nvfl_submitter.crt")
_CONFIGURATION: Final = "config/config_fed_client.json"
_DEPLOYED: Final = frozenset({
    "config/", _CONFIGURATION, "config/config_fed_server.json", *_SIGNATURES,
    *(f"config/{name}" for name in _SIGNATURES),
})  # fmt: skip
_MOST_BYTES: Final = 1_000_000


def why_refused(topic: object, origin: object, job: object, site: str) -> str:
    """Return why a request to a site's process is refused before FLARE sees it; empty if it is not.

    Its ``origin`` must be ``server``, or a run's process of this site, which tells how its job goes. The ``job`` that
    it names must be one: FLARE deletes the folder of that name before it unpacks a job.
    """
    if not isinstance(topic, str) or topic not in _REQUESTS:
        return "a party answers requests of runs only"
    if job not in (None, "") and not (isinstance(job, str) and _JOB.fullmatch(job)):
        return "it names a job by what is no name of a job"
    if origin == _COORDINATOR or (topic == _OF_JOB and origin == f"{site}.{job}"):
        return ""
    return "only the coordinator's server may ask"


def why_not_deployed(packed: object) -> str:
    """Return why an app, a zip file that the coordinator sent, is refused; empty if it is not.

    A run brings its two configuration files and their signatures. That of the party is what a job of ours has there, to
    the letter: no other class, argument, filter or variable. FLARE refuses code in an app's folder ``custom``. It
    looks for its own settings anywhere below a site's folder, though, runs included: a ``comm_config.json`` among a
    run's files could name a folder of the run to load drivers from.
    """
    if not isinstance(packed, bytes):
        return "what it brings is no zip file"
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as app:
            for entry in app.infolist():
                if entry.filename not in _DEPLOYED:
                    return f"it brings the file {entry.filename[:100]!r}; a run brings its configuration alone"
            if sum(entry.file_size for entry in app.infolist()) > _MOST_BYTES:
                return f"its configuration has more than {_MOST_BYTES:,} bytes"
            brought = [app.read(entry) for entry in app.infolist() if entry.filename == _CONFIGURATION]
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, ValueError, RuntimeError, EOFError):
        return "what it brings is no zip file"
    ours = [job_text("client", purpose=purpose).encode() for purpose in PURPOSES]
    if not brought or any(text not in ours for text in brought):
        return f"its configuration is not that of a job that is to {' or to '.join(PURPOSES)}, and to nothing else"
    return ""


def guard() -> None:
    """Take away what a run does not need; before FLARE's main starts."""
    from nvflare.fuel.f3.cellnet.utils import new_cell_message
    from nvflare.private.admin_defs import MsgHeader, ReturnCode, error_reply
    from nvflare.private.fed.client.admin import FedAdminAgent
    from nvflare.private.fed.client.admin_commands import AdminCommands

    dispatch, command = FedAdminAgent._dispatch_request, AdminCommands.get_command

    def from_the_coordinator(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        origin, asked = request.get_header(_origin_header()), request.payload
        topic = getattr(asked, "topic", None)
        job = None if topic is None else asked.get_header("job_id")
        reason = why_refused(topic, origin, job, self.app_ctx.get_client_name())
        if topic == _DEPLOY and not reason:
            reason = why_not_deployed(asked.body)
        if reason:
            _LOGGER.error("refused: the request %.100r of %.100r: %s", topic, origin, reason)
            return new_cell_message({}, error_reply(f"refused: {reason}"))
        reply = dispatch(self, request, *args, **kwargs)
        if (
            reply.payload.get_header(MsgHeader.RETURN_CODE) == ReturnCode.ERROR
        ):  # FLARE tells the coordinator, and nobody here
            _LOGGER.error("refused: the request %.100r of %.100r: %.300s", topic, origin, reply.payload.body)
        return reply

    def such_as_end_a_run(name: object) -> Any:
        if name in _JOB_COMMANDS:
            return command(name)
        _LOGGER.error("refused: %.100r; a run answers what ends it only", name)
        return None

    FedAdminAgent._dispatch_request, AdminCommands.get_command = from_the_coordinator, staticmethod(such_as_end_a_run)


def refuse_diagnostics() -> None:
    """Refuse what FLARE's network answers to whoever is in it, without a look at rights.

    Variables of the configuration, threads, load tests, another root to connect to: for a debugging engineer. A process
    is stopped by the coordinator's server or by its own site.
    """
    from nvflare.fuel.f3.cellnet.net_agent import NetAgent

    for name in [name for name in vars(NetAgent) if name.startswith("_do_")]:
        setattr(NetAgent, name, _guarded(name, getattr(NetAgent, name)))


def _guarded(name: str, answer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    from nvflare.fuel.f3.cellnet.defs import ReturnCode
    from nvflare.fuel.f3.cellnet.utils import make_reply

    def asked(self: Any, request: Any) -> Any:
        origin = str(request.get_header(_origin_header()))
        ours = origin.partition(".")[0] in (_COORDINATOR, self.cell.get_fqcn().partition(".")[0])
        if name in _NETWORK_REQUESTS and ours:
            return answer(self, request)
        _LOGGER.error("refused: %s of %.100r; a site answers no diagnostics", name.removeprefix("_do_"), origin)
        return make_reply(ReturnCode.AUTHENTICATION_ERROR, "refused")

    return asked


def _origin_header() -> str:
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey

    return str(MessageHeaderKey.ORIGIN)


def read_settings_of_the_kit_alone(kit: Path) -> None:
    """Let FLARE find its settings where the kit has them, in ``startup`` and ``local``.

    It would look in all folders below that of the kit, those of runs included, and where it knows no folder, below the
    current one: a file ``comm_config.json`` there could name code to load. A process that runs FLARE calls this first.
    """
    from nvflare.fuel.utils.config import ConfigFormat
    from nvflare.fuel.utils.config_factory import ConfigFactory

    def search(init_file_path: str, search_dirs: list[str] | None = None, target_fmt: Any = None) -> tuple[Any, Any]:
        formats = ConfigFormat.config_ext_formats()
        endings = ConfigFormat.extensions(target_fmt) if target_fmt else list(formats)
        name = ConfigFactory.get_file_basename(init_file_path)
        places: list[Path] = []
        for folder in map(Path, search_dirs or [str(Path(init_file_path).parent)]):
            of_kit = folder == Path() or folder.resolve() == kit.resolve()
            places += [kit / "startup", kit / "local"] if of_kit else [folder]
        for ending in endings:
            for place in places:
                if (place / f"{name}{ending}").is_file():
                    return formats[ending], str(place / f"{name}{ending}")
        return None, None

    ConfigFactory.search_config_format = staticmethod(search)


def tell_refused_connections() -> None:
    """Log each TLS handshake that fails: Python tells of it only when it is debugged."""
    protocol: Any = asyncio.sslproto.SSLProtocol
    fatal_error = protocol._fatal_error

    def told(self: Any, exc: BaseException, message: str = "Fatal error on transport") -> None:
        if message.startswith("SSL handshake failed"):
            peer = self._transport.get_extra_info("peername") if self._transport else None
            _LOGGER.error("refused: the connection with %s: %s", peer, exc)
        fatal_error(self, exc, message)

    protocol._fatal_error = told


def notice_second_processes(state: Path) -> None:
    """At the coordinator: tell the earlier of two living processes of a party, and keep in ``state`` when that was.

    FLARE lets the later one register and drops the first, which goes on and is told nothing. A process that has ended
    sends no signs of life: to begin again is no second process.
    """
    from nvflare.apis.fl_constant import FLContextKey
    from nvflare.private.fed.server.client_manager import ClientManager

    honest = ClientManager.heartbeat

    def heartbeat(self: Any, token: str, client_name: str, client_fqcn: str, fl_ctx: Any) -> Any:
        fresh = honest(self, token, client_name, client_fqcn, fl_ctx)
        if token not in self.clients and any(client.name == client_name for client in self.clients.values()):
            _LOGGER.error("refused: party %.100r: %s", client_name, TWICE)
            fl_ctx.set_prop(FLContextKey.UNAUTHENTICATED, TWICE, sticky=False)
            (state / "twice").mkdir(mode=0o700, exist_ok=True)
            (state / "twice" / client_name).touch(mode=0o600)
        return fresh

    ClientManager.heartbeat = heartbeat


def tell_second_process() -> None:
    """At a party: log that the coordinator knows of a later process; FLARE logs the class of an error."""
    from nvflare.private.fed.client import communicator

    honest = communicator.FLCommunicationError

    def error(message: str, *more: Any) -> Exception:
        if TWICE in message:
            _LOGGER.error("%s. Stop all processes but one", TWICE)
        told: Exception = honest(message, *more)
        return told

    communicator.FLCommunicationError = error


def begin_run() -> None:
    """Let the process of a run be one: all is loaded, and it ends soon when it is over, and with the site's process."""
    gc.enable()
    look_often(RUN)
    end_with_parent()


def end_with_parent(end: Callable[[int], object] = os._exit) -> None:
    """End this process, at once and without tidying up, soon after the one that started it is gone.

    FLARE puts each job in a process of its own session, which outlives a site that is killed: it would go on answering
    the coordinator, and nobody could stop it but by its number.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        end(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def main() -> None:
    """Run FLARE's module of the command line, guarded."""
    del sys.argv[0]
    kit = Path(sys.argv[sys.argv.index("-m") + 1])
    read_settings_of_the_kit_alone(kit)
    tell_refused_connections()
    refuse_diagnostics()
    if sys.argv[0] in _OF_COORDINATOR:
        notice_second_processes(kit / "state")
    else:
        guard()
        tell_second_process()
    look_often(sys.argv[0])
    if sys.argv[0] not in (MAIN["coordinator"][0], MAIN["party"][0]):
        gc.disable()  # until the run begins: what is loaded is searched in vain, a fifth of the time
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        leave(end.code)


if __name__ == "__main__":
    main()
