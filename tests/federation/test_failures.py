"""What breaks while a run is under way: each is an error that names who is gone, and the run goes on where it was.

A party whose answer does not leave makes a run long enough for something to break in the middle. One that was cut off
must leave the same parts of the model, bit for bit, as one process does. Last come parties that lie in what FLARE
itself carries, and what a private run is charged.
"""

import signal
import sqlite3
import time
from contextlib import suppress

import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")

from sottovoce.vertical import VerticalLogisticRegression
from support.federation import running_federation, until
from support.small_federation import (
    DELTA,
    EPSILON,
    PRIVATE,
    RUN,
    check_model,
    in_process,
    make_ledgers,
    model_of,
    open_sites,
    sites,
)

LIARS = ["-m", "support.changed_site", "lies"]


@pytest.fixture(scope="module")
def federation():
    with running_federation(open_sites(), start=False) as federation:
        federation.start("north")
        answers(federation, 1000)
        yield federation


def answers(federation, most=3):
    """Let the bank answer so many requests of each run, the one that begins it included; then it hangs."""
    (federation.kit("bank") / "lie.txt").write_text(f"hangs {most}")
    if not federation.processes("bank"):
        federation.start("bank", program=LIARS)


@pytest.fixture(scope="module")
def expected(federation):
    return model_of(federation, RUN)


def asked_of_the_bank(federation):
    with suppress(sqlite3.OperationalError):  # it is being made
        return [entry["kind"] for entry in federation.register("bank")]
    return []


def hangs(federation, run):
    process = federation.process("bank")
    process.suspend()
    return process.resume


def kills_a_party(federation, run):
    federation.kill("bank")
    until(lambda: not federation.processes("bank"), 20, "the end of the site's process")


def stops_a_party(federation, run):
    """Although it computes something."""
    federation.stop("bank")
    assert not federation.processes("bank")


def kills_the_coordinator(federation, run):
    run.process.kill()


def interrupts(federation, run):
    """Whoever asked for the run ends it, though a party hangs."""
    resume = hangs(federation, run)
    run.process.send_signal(signal.SIGINT)
    return resume


BLOWS = {hangs: {"bank"}, kills_a_party: {"bank"}, stops_a_party: {"bank"}, kills_the_coordinator: None,
         interrupts: set()}  # fmt: skip


@pytest.mark.parametrize("blow", BLOWS, ids=lambda blow: blow.__name__)
def test_a_run_that_was_cut_off_names_who_is_gone_and_ends_as_it_would_have(federation, expected, blow):
    answers(federation)
    before = len(asked_of_the_bank(federation))
    run = federation.begin(*RUN)
    until(lambda: "ShowColumns" in asked_of_the_bank(federation)[before:], 150, "the question that is not answered")
    began = time.monotonic()
    mend = blow(federation, run) or (lambda: None)
    said = run.end(fails=True)
    if BLOWS[blow] is None:  # it says nothing any more
        told = federation.command("status", federation.coordinator, run.folder.name).stdout
        assert "its command ended before the run did" in " ".join(told.split())
    else:
        assert f"--resume {run.folder.name}" in said
    if BLOWS[blow]:
        assert {name for name in ("north", "bank") if f"'{name}'" in said} == BLOWS[blow], said
    assert "within 20 s" in said or blow is not hangs
    assert time.monotonic() - began < 60
    assert (run.process.returncode == 130) == (blow is interrupts)
    mend()
    federation.stop("bank")  # it hangs
    answers(federation, 1000)
    federation.train("--resume", run.folder.name, "--json")
    check_model(federation, run.folder, expected)
    federation.wait_for_silence()


def test_a_private_run_that_was_cut_off_is_charged_once_and_a_party_that_lies_is_named():
    """A party's training is on its disk, and the answer does not arrive; a new process of it sends the same one."""
    with running_federation(sites(), prepare=make_ledgers, start=False) as federation:
        lie = federation.kit("bank") / "lie.txt"
        lie.write_text("hangs 3")
        federation.start("north")
        federation.start("bank", program=LIARS)
        run = federation.begin(*PRIVATE)
        assert "'bank'" in run.end(fails=True)
        kinds = [entry["kind"] for entry in federation.register("bank")]
        assert kinds[-1] == "TrainOnBall", kinds
        federation.stop("bank")
        federation.start("bank")
        federation.wait_for_silence()
        federation.train("--resume", run.folder.name, "--json")
        check_model(federation, run.folder, model_of(federation, PRIVATE))
        assert [len(federation.charges(name)) for name in federation.names[1:]] == [1, 1]
        federation.wait_for_silence()
        local = {"epsilon": EPSILON, "delta": DELTA, "mechanism": "local-models"}  # the other mechanism of parties
        words = [f"--{name}={value}" for name, value in local.items()]
        federation.train("--model", "logistic", "--labels-public", *words)
        estimator = VerticalLogisticRegression(**local, labels_public=True, classes=["no", "yes"], label_holder="lab")
        check_model(federation, federation.runs()[-1], in_process(federation, estimator))
        federation.stop("bank")
        federation.start("bank", program=LIARS)
        for kind in ("huge", "object", "raises"):
            lie.write_text(f"{kind} 3")
            federation.wait_for_silence()
            said = federation.train(*PRIVATE, fails=True).stderr
            assert "'bank'" in said and "'north'" not in said and "secret" not in said, (kind, said)
