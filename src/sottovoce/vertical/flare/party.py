"""A party in a run: the component that a job names. Everything that is decided is decided by its gate."""

from pathlib import Path

from nvflare.collab import collab

from sottovoce.vertical.flare.hardening.gate import Gate
from sottovoce.vertical.flare.hardening.guard import begin_run


class PartySite:
    """What FLARE makes at a party and calls; it needs the extra ``[vertical]``.

    The purpose is "train" or "score". A job that gives anything else is refused, at the site and in words.
    """

    def __init__(self, purpose: object = "train", **forbidden: object) -> None:
        self._gate = Gate(purpose, sorted(forbidden))

    @collab.init  # type: ignore[untyped-decorator]
    def begin(self) -> None:
        """Open the site of the kit that FLARE was started with."""
        begin_run()
        job = str(collab.fl_ctx.get_job_id())
        self._gate.open(collab.workspace.get_root_dir(), run=job, app=Path(collab.workspace.get_app_dir(job)))

    @collab.publish  # type: ignore[untyped-decorator]
    def answer(self, raw: bytes) -> bytes:
        """Answer one request: the only thing that can be called here."""
        return self._gate.answer(raw, caller=collab.caller)

    @collab.final  # type: ignore[untyped-decorator]
    def end(self) -> None:
        self._gate.close()
