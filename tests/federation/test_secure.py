"""Joint training inside secure computation, over real sites: the numbers of one process, and an end where one breaks.

FLARE carries the messages, the engines of the sites open TLS connections to each other. Noise can be repeated here, so
that what real engines open must be what the same whole numbers are in clear. What was begun is charged, and cannot be
taken up again.
"""

import json
import re
import time

import psutil
import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")
pytest.importorskip("spu", reason="joint training needs the extra [secure]")

from sottovoce.vertical import VerticalLogisticRegression
from support.federation import running_federation, until
from support.small_federation import DELTA, EPSILON, check_model, in_process, joint_sites, make_ledgers

PRIVATE = ("--model", "logistic", "--epsilon", EPSILON, "--delta", DELTA)
RUN = (*PRIVATE, "--mechanism", "secure", "--timeout", 15)
PATIENCE = 20.0  # of a site with its partners, in seconds


@pytest.fixture(scope="module")
def federation():
    """Three sites compute; one of them has no table."""
    sites = joint_sites("lab", "north", helper="notary", timeout=PATIENCE)
    with running_federation(sites, prepare=make_ledgers) as federation:
        yield federation


@pytest.fixture(autouse=True)
def _nothing_is_left(federation):
    """No run is under way, no engine of this test lives, and no key of a session lies about, whatever the test did."""
    federation.seen = []
    yield
    federation.wait_for_silence()
    _, alive = psutil.wait_procs(federation.seen, 20)
    assert not alive, alive


def charges(federation):
    return [charge.charge for charge in federation.charges("north") if charge.counts]


def trained(federation, engine):
    """Return the folder of a run; its receipt names the engine, and north has charged it once."""
    before = charges(federation)
    said = federation.train(*RUN, "--engine", engine, seconds=240)
    assert re.search(r"joint computation: (second moments|pass \d+ of \d+)", said.stderr)
    run = federation.runs()[-1]
    receipt = (run / "guarantee.json").read_text()
    assert engine in receipt and "colluding" in receipt and json.loads(receipt)["epsilon"] == EPSILON
    assert len(set(charges(federation))) == len(before) + 1
    kinds = {entry["kind"] for entry in federation.register("north")}
    assert kinds >= {"Invite", "Connect", "Join", "Poll"}
    federation.wait_for_silence()
    for name in federation.names:
        assert not federation.engines(name)
        assert not list((federation.kit(name) / "state" / "tmp").iterdir()), name
    return run


def test_three_sites_compute_what_one_process_does(federation):
    expected = VerticalLogisticRegression(
        epsilon=EPSILON, delta=DELTA, mechanism="secure", engine="in-process", classes=["no", "yes"],
        label_holder="lab",
    )  # fmt: skip
    check_model(federation, trained(federation, "spu"), in_process(federation, expected))
    assert not federation.parts("notary")
    facts = json.loads(federation.command("status", federation.kit("notary"), "--json").stdout)
    assert facts["helper"] is True and facts["runs"][0]["refusals"] == 0


def kills_an_engine(federation, engine):
    engine.kill()


def kills_a_site(federation, engine):
    federation.kill("north")
    until(lambda: not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE, 10, "the end of the engine")


def hangs(federation, engine):
    process = federation.process("north")
    process.suspend()
    return process.resume


@pytest.mark.parametrize("blow", [kills_an_engine, kills_a_site, hangs], ids=lambda blow: blow.__name__)
def test_what_breaks_in_a_step_is_charged_and_lost(federation, blow):
    before = len(charges(federation))
    run = federation.begin(*RUN, "--engine", "spu")
    run.wait_for_note("joint computation")
    engine = until(lambda: federation.engines("north"), what="an engine at north")[0]
    federation.seen += [each for name in federation.names for each in federation.engines(name)]
    run.wait_for_note("joint computation: second moments")
    until(lambda: len(charges(federation)) == before + 1, what="the charge")
    engine.suspend()
    assert run.status()["joint"] == "joined"
    began = time.monotonic()
    resume = blow(federation, engine)
    said = run.end(fails=True)
    assert time.monotonic() - began < PATIENCE + 40
    if resume is not None:
        resume()
    if not federation.processes("north"):
        federation.start("north")
    assert blow is kills_an_engine or "'north'" in said
    assert len(charges(federation)) == before + 1
    assert "stays charged" in said and "--resume" not in said
    refused = federation.train("--resume", run.folder.name, fails=True).stderr
    assert "cannot be taken up again" in refused and "another release" in refused


def test_a_site_that_runs_other_code_is_named_by_its_card_before_anything_is_shared(federation):
    before = charges(federation)
    federation.stop("notary")
    # no helper takes part in other trainings: it may be away
    federation.train(*PRIVATE, "--mechanism", "local-models")
    before += charges(federation)[len(before) :]
    federation.start("notary", program=["-m", "support.changed_site", "other_version"])
    try:
        said = federation.train(*RUN, fails=True).stderr
    finally:
        federation.stop("notary")
        federation.start("notary")
    assert "'notary'" in said
    assert charges(federation) == before


def test_after_all_that_a_run_goes_well_by_shares_of_shamir_too(federation):
    trained(federation, "shamir")
