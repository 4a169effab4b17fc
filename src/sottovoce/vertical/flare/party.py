"""A party in a run: the component that a job names. Everything that is decided is decided by its gate."""

from nvflare.collab import collab

from sottovoce.vertical.flare.hardening.gate import Gate
from sottovoce.vertical.flare.hardening.guard import begin_run


class PartySite:
    """What FLARE makes at a party and calls, to "train" or to "score"; it needs the extra ``[vertical]``."""

    def __init__(self, purpose: object = "train") -> None:
        self._gate = Gate(purpose)

    @collab.init  # type: ignore[untyped-decorator]
    def begin(self) -> None:
        """Open the site of the kit that FLARE was started with."""
        begin_run()
        self._gate.open(collab.workspace.get_root_dir(), run=str(collab.fl_ctx.get_job_id()))

    @collab.publish  # type: ignore[untyped-decorator]
    def answer(self, raw: bytes) -> bytes:
        """Answer one request: the only thing that can be called here."""
        return self._gate.answer(raw, caller=collab.caller)

    @collab.final  # type: ignore[untyped-decorator]
    def end(self) -> None:
        self._gate.close()
