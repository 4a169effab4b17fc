"""Launchers: start the process of a run as FLARE does, through the guard. Only FLARE imports this."""

from typing import Any

from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher


class GuardedLauncher(ClientProcessJobLauncher):  # type: ignore[misc]
    """At a party; see `sottovoce.vertical.flare.hardening.guard`."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        return _guarded(super().get_command(job_meta, fl_ctx))


class GuardedServerLauncher(ServerProcessJobLauncher):  # type: ignore[misc]
    """At the coordinator."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        return _guarded(super().get_command(job_meta, fl_ctx))


def _guarded(command: str) -> str:
    before, module, after = command.partition(" -m nvflare.")
    if not module:
        raise RuntimeError("FLARE starts the process of a run otherwise than before: it cannot be guarded")
    return f"{before} -m sottovoce.vertical.flare.hardening.guard nvflare.{after}"
