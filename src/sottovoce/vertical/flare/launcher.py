"""GuardedLauncher: starts the process of a run at a party as FLARE does, through the guard. Only FLARE imports this."""

from __future__ import annotations

from typing import Any

from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher

__all__ = ["GuardedLauncher"]


class GuardedLauncher(ClientProcessJobLauncher):  # type: ignore[misc]
    """See `sottovoce.vertical.flare.guard`."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """Return FLARE's command line with the guard before FLARE's module."""
        before, module, after = str(super().get_command(job_meta, fl_ctx)).partition(" -m nvflare.")
        if not module:
            raise RuntimeError("FLARE starts the process of a run otherwise than before: it cannot be guarded")
        return f"{before} -m sottovoce.vertical.flare.guard nvflare.{after}"
