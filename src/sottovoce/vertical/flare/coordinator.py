"""The coordinator's side of a run within FLARE: the component that a job names, and how requests travel.

It needs the extra ``[vertical]``. What the run does is in `sottovoce.vertical.flare.programs`.
"""

from collections.abc import Mapping
from typing import Any, Final

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError, RunAborted
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.utils import new_cell_message

from sottovoce.vertical.flare.hardening.guard import begin_run
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.parties import Alive, Call, RunStopped
from sottovoce.vertical.flare.programs import execute

_PROBE_SECONDS: Final = 3.0


class CoordinatorSite:
    """What FLARE makes at the coordinator and calls; ``run`` is a folder among the kit's runs: it says what to do."""

    def __init__(self, run: str) -> None:
        self._run = run

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> None:
        """Do the run; an error ends the job everywhere, what went wrong is in the run's folder."""
        begin_run()
        kit = Kit.open(collab.workspace.get_root_dir())
        context = collab.context
        proxies = {proxy.name: proxy for proxy in collab.clients}
        phase = execute(
            kit, self._run, str(collab.fl_ctx.get_job_id()), carrier(proxies), alive=prober(proxies),
            stopped=lambda: bool(context.is_aborted()),
        )  # fmt: skip
        if phase == "failed":
            raise RuntimeError(f"run {self._run} failed; see its status")


def carrier(proxies: Mapping[str, Any]) -> Call:
    """Return what carries requests to the clients of a job, by their names."""

    def call(name: str, raw: bytes, seconds: float) -> object:
        try:
            return proxies[name](timeout=seconds).answer(raw=raw)
        except RunAborted:
            raise RunStopped("the run was stopped before its end.") from None
        except CollabCallError as error:
            if isinstance(error.cause, TimeoutError):
                raise TimeoutError from None
            raise ConnectionError from None  # what it says came from the party: not shown

    return call


def prober(proxies: Mapping[str, Any]) -> Alive:
    """Return what tells whether the process of a client of a job can be reached: by an echo of its message layer."""

    def alive(name: str) -> bool:
        backend = proxies[name].backend
        reply = backend.cell.core_cell.send_request(
            channel="_net_manager", topic="echo", target=backend.target_fqcn, request=new_cell_message({}, b""),
            timeout=_PROBE_SECONDS, optional=True,
        )  # fmt: skip
        # a process that is stopped or busy does not answer in time, and is not gone
        return reply.get_header(MessageHeaderKey.RETURN_CODE) not in (
            ReturnCode.TARGET_UNREACHABLE,
            ReturnCode.COMM_ERROR,
        )

    return alive
