"""The coordinator's side of a run within FLARE: the component that a job names, and how requests travel.

It needs the extra ``[vertical]``. What the run does is in `sottovoce.vertical.flare.programs`.
"""

from collections.abc import Mapping
from typing import Any

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError, RunAborted

from sottovoce.vertical.flare.hardening.guard import begin_run
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.parties import Call, RunStopped
from sottovoce.vertical.flare.programs import execute


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
        job, call = str(collab.fl_ctx.get_job_id()), carrier(proxies)
        phase = execute(kit, self._run, job, call, stopped=lambda: bool(context.is_aborted()))
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
