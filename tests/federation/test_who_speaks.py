"""Who speaks in a run: a party answers the coordinator of its kit and nobody else, and a kit is used once."""

import contextlib
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")

from sottovoce.vertical.flare.register import Register
from sottovoce.vertical.protocols.general.messages import Describe
from sottovoce.vertical.protocols.local_models.messages import TrainOnLabels
from sottovoce.vertical.wire import Frame, new_session
from support.federation import SECONDS, running_federation, until
from support.small_federation import PRIVATE, make_ledgers, sites

pytestmark = pytest.mark.federation

IMPERSONATES = ["-m", "support.changed_site", "impersonates"]


def test_a_party_that_speaks_in_the_coordinators_name_is_nobody():
    """FLARE lets it, under an earlier token; nothing is answered or charged, and both sites say so."""
    with running_federation(sites(), prepare=make_ledgers, start=False) as federation:
        federation.start("lab", "north")
        federation.start("bank", program=IMPERSONATES)
        federation.stop("bank")
        federation.start("bank", program=IMPERSONATES)
        session = new_session()
        labels = np.where(np.arange(60) % 2, 1.0, -1.0)
        frames = [Describe(), TrainOnLabels(labels, "logistic", 0.0, 0.0, 1.0, 1.0, "m")]
        raws = [Frame(session, step, request.encode()).encode().hex() for step, request in enumerate(frames, 1)]
        (federation.kit("bank") / "forged.json").write_text(json.dumps(raws))
        run = federation.begin(*PRIVATE)
        status = run.process.wait(SECONDS)
        sent = json.loads((federation.kit("bank") / "sent.json").read_text())
        assert len(sent) >= len(frames), sent
        charged = [charge for charge in federation.charges("north") if charge.plan["session"] == session.hex()]
        assert not charged, charged
        entries = [entry for entry in federation.register("north") if entry["session"] == session.hex()]
        assert not entries, entries
        refused = " ".join(federation.refusals("north"))
        assert "it answers the coordinator alone: it is not in an envelope of 'lab'" in refused, refused
        assert "the certificate of 'lab' is another one's" in refused, refused
        assert status != 0, federation.logs()
        assert "'north' turned away" in run.said(), run.said()


def test_a_kit_that_is_copied_is_noticed_at_both_sites():
    """While both run, by the engine's signs of life; afterwards, by the ledger. The right one goes on."""
    with running_federation(sites(), prepare=make_ledgers) as federation:
        copy = federation.folder / "copied" / "north"
        shutil.copytree(federation.kit("north"), copy, ignore=shutil.ignore_patterns("*.lock", "tmp"))
        federation.train(*PRIVATE)
        charged = len(federation.charges("north"))
        with copied(federation, copy) as second:
            until(lambda: "its kit is in use twice" in federation.output("north"), what="a word at the first process")
            until(lambda: not federation.processes("north"), what="the end of the first process")
            said = federation.train(*PRIVATE, fails=True).stderr
            assert "two processes of party 'north' were connected" in said, said
            os.utime(federation.coordinator / "state" / "twice" / "north", (0.0, 0.0))
            said = federation.train(*PRIVATE, fails=True).stderr
            assert "its ledger lacks an entry that the coordinator was told of" in " ".join(said.split()), said
            assert second.poll() is None
        with contextlib.closing(Register(copy / "state" / "register.db", read_only=True)) as register:
            assert "its ledger lacks an entry" in register.refusals()[0]["reason"]
        federation.stop("north")
        federation.start("north")
        federation.wait_for_silence()
        federation.train(*PRIVATE)
        assert len(federation.charges("north")) == 2 * charged > 0


@contextlib.contextmanager
def copied(federation, kit):
    """Run the party of a kit in another place."""
    with (federation.folder / "copied.out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "sottovoce", "vertical", "party", str(kit)], env=federation.environment(),
            cwd=federation.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)
