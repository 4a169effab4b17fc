"""What breaks under a joint computation: an error that names who, in time; the charge kept; nothing left running.

Before all sites have met nothing is charged. From the start on the whole epsilon is, at every party that began.
"""

import contextlib
import json
import socket
import time

import psutil
import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")
pytest.importorskip("spu", reason="joint training needs the extra [secure]")

from support.federation import running_federation, until
from support.small_federation import DELTA, EPSILON, FIRST_PORT, joint_sites, make_ledgers

pytestmark = pytest.mark.federation

RUN = (
    "--model", "logistic", "--epsilon", EPSILON, "--delta", DELTA, "--mechanism", "secure", "--engine", "spu",
    "--timeout", 15,
)  # fmt: skip
PATIENCE = 20.0  # of a site with its partners, in seconds


@pytest.fixture(scope="module")
def federation():
    sites = joint_sites("lab", "north", helpers=("notary",), timeout=PATIENCE)
    with running_federation(sites, prepare=make_ledgers) as federation:
        yield federation


@pytest.fixture(autouse=True)
def _nothing_is_left(federation):
    """All sites go on, no run is under way, and no engine of this test lives, whatever the test did."""
    federation.seen = []
    yield
    federation.wait_for_silence()
    _, alive = psutil.wait_procs(federation.seen, 20)
    assert not alive, alive


def engine_of(federation, run, name):
    """Return a site's engine, once it is there; all sites' are looked at again at the end of the test."""
    run.wait_for_note("joint computation")
    found = until(lambda: federation.engines(name), what=f"an engine at {name}")[0]
    federation.seen += [each for other in federation.names for each in federation.engines(other)]
    return found


def charges(federation):
    return len([charge for charge in federation.charges("north") if charge.counts])


def joined(run, federation, before):
    """Wait until north has begun, and is charged; return its engine, which does not go on."""
    engine = engine_of(federation, run, "north")
    run.wait_for_note("joint computation: second moments")
    until(lambda: charges(federation) == before + 1, what="the charge")
    engine.suspend()
    assert run.status()["joint"] == "joined"
    return engine


def check_lost(federation, run, said, before):
    """The charge is kept, and the run is not taken up again."""
    assert charges(federation) == before + 1
    assert "stays charged" in said
    assert "--resume" not in said
    refused = federation.train("--resume", run.folder.name, fails=True)
    assert "cannot be taken up again" in refused.stderr
    assert "another release" in refused.stderr


@contextlib.contextmanager
def changed(federation, name, old, new):
    """Change a line of a site's settings, which each run reads anew."""
    path = federation.kit(name) / "site.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    try:
        yield
    finally:
        path.write_text(text)


def test_an_engine_is_killed_in_a_step(federation):
    before = charges(federation)
    run = federation.begin(*RUN)
    engine = joined(run, federation, before)
    began = time.monotonic()
    engine.kill()
    said = run.end(fails=True)
    assert time.monotonic() - began < PATIENCE + 20
    check_lost(federation, run, said, before)


def test_a_site_is_killed_in_a_step(federation):
    before = charges(federation)
    run = federation.begin(*RUN)
    engine = joined(run, federation, before)
    federation.run_process("north").kill()
    said = run.end(fails=True)
    assert "'north'" in said
    until(lambda: not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE, 10, "the end of the engine")
    check_lost(federation, run, said, before)


def test_a_site_hangs_in_a_step(federation):
    before = charges(federation)
    run = federation.begin(*RUN)
    joined(run, federation, before)
    process = federation.run_process("north")
    process.suspend()
    began = time.monotonic()
    said = run.end(fails=True)
    process.resume()
    assert "'north'" in said
    assert time.monotonic() - began < PATIENCE + 40
    check_lost(federation, run, said, before)


def test_an_owner_does_not_compute_with_a_partner(federation):
    before = charges(federation)
    with changed(federation, "notary", 'partners = ["lab", "north"]', 'partners = ["lab"]'):
        said = federation.train(*RUN, fails=True).stderr
    assert "'notary'" in said and "'north'" in said
    assert "charged" not in said or "Nothing was charged" in said
    assert charges(federation) == before


def test_a_sites_ports_are_taken(federation):
    before = charges(federation)
    with socket.create_server(("127.0.0.1", FIRST_PORT + 10)):
        old, new = f"ports = [{FIRST_PORT + 10}, {FIRST_PORT + 19}]", f"ports = [{FIRST_PORT + 10}, {FIRST_PORT + 10}]"
        with changed(federation, "north", old, new):
            said = federation.train(*RUN, fails=True).stderr
    assert "'north'" in said and "no port" in said
    assert charges(federation) == before


@pytest.mark.slow
def test_a_site_without_the_engine(federation):
    before = charges(federation)
    with changed(federation, "notary", "[secure]", '[secure]\nengines = ["shamir"]'):
        said = federation.train(*RUN, fails=True).stderr
    assert "'notary'" in said and "spu" in said
    assert charges(federation) == before


@pytest.mark.parametrize("change", ["other_version", pytest.param("other_programs", marks=pytest.mark.slow)])
def test_a_site_runs_other_code(federation, change):
    """The others see it in its card, before anything is shared."""
    before = charges(federation)
    federation.stop("notary")
    federation.start("notary", program=["-m", "support.changed_site", change])
    try:
        said = federation.train(*RUN, fails=True).stderr
    finally:
        federation.stop("notary")
        federation.start("notary")
    assert "'notary'" in said
    assert charges(federation) == before


def test_after_all_that_a_run_goes_well(federation):
    """And nothing is left of the sessions before: keys, links."""
    told = json.loads(federation.train(*RUN, "--json", seconds=240).stdout)
    assert told["phase"] == "done"
    federation.wait_for_silence()
    for name in federation.names:
        assert not list((federation.kit(name) / "state" / "tmp").iterdir()), name
