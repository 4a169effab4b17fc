"""Who speaks in a run: a kit is used once. Whose requests and answers are taken: `contracts/test_envelopes.py`."""

import contextlib
import os
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")

from sottovoce.vertical.flare.register import Register
from support.federation import running_federation, until
from support.small_federation import PRIVATE, make_ledgers, sites


def test_a_kit_that_is_copied_is_noticed_at_both_sites():
    """While both run, by which process is there at each new line; afterwards, by the ledger. The right one goes on."""
    with running_federation(sites(), prepare=make_ledgers) as federation:
        copy = federation.folder / "copied" / "north"
        shutil.copytree(federation.kit("north"), copy, ignore=shutil.ignore_patterns("*.lock", "tmp"))
        federation.train(*PRIVATE)
        charged = len(federation.charges("north"))
        # a coordinator that is there again within some seconds is no news; the word may come before its command ends
        until(
            lambda: "not connected yet" in federation.output("north").rpartition("connected to lab")[2], what="a word"
        )
        met = len(federation.output("north"))
        federation.start("lab", program=["-m", "support.changed_site", "honest"])  # it listens, and does no run
        until(lambda: "connected to lab" in federation.output("north")[met:], what="the first process")
        with copied(federation, copy) as second:
            until(lambda: "its kit is in use twice" in federation.output("north"), what="a word at the first process")
            until(lambda: not federation.processes("north"), what="the end of the first process")
            federation.stop("lab")
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
