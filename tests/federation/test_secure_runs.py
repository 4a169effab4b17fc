"""Joint training inside secure computation, over real sites: the numbers of one process, bit for bit.

FLARE carries the messages, the engines of the sites open TLS connections to each other. Noise can be repeated here, so
that what real engines open must be what the same whole numbers are in clear.
"""

import json
import re

import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")

from sottovoce.vertical import VerticalLinearSVC, VerticalLogisticRegression
from support.federation import running_federation
from support.small_federation import DELTA, EPSILON, check_model, in_process, joint_sites, make_ledgers

pytestmark = pytest.mark.federation

PRIVATE = ("--epsilon", EPSILON, "--delta", DELTA, "--mechanism", "secure")


def expected(federation, kind=VerticalLogisticRegression, **options):
    return in_process(
        federation,
        kind(
            epsilon=EPSILON, delta=DELTA, mechanism="secure", engine="in-process", classes=["no", "yes"],
            label_holder=federation.names[0], mechanism_options=options,
        ),
    )  # fmt: skip


def check_receipt(federation, run, engine, computing):
    """It names the engine, who computed, and the cost, which every party has charged once."""
    receipt = json.loads((run / "guarantee.json").read_text())
    text = json.dumps(receipt)
    assert engine in text and "colluding" in text
    assert receipt["epsilon"] == EPSILON
    for name in federation.names[1:]:
        if name in federation.helpers:
            continue
        sessions = [charge.plan["session"] for charge in federation.charges(name) if charge.counts]
        assert len(sessions) == len(set(sessions)) == len(federation.runs()), name
        kinds = [entry["kind"] for entry in federation.register(name)]
        assert {"Invite", "Connect", "Join", "Poll", "KeepJoint"} <= set(kinds)


def check_run(federation, *words, engine, reference):
    said = federation.train("--model", *words, *PRIVATE, seconds=240)  # three sites: spu, where all have it
    assert "joint computation: " in said.stderr  # which steps are seen depends on how fast they pass
    run = federation.runs()[-1]
    check_model(federation, run, reference)
    check_receipt(federation, run, engine, federation.names)
    assert not any(federation.engines(name) for name in federation.names)
    federation.wait_for_silence()
    return said


def test_two_parties_and_a_helper():
    """Three sites compute by ABY3; one of them has no table."""
    pytest.importorskip("spu", reason="joint training needs the extra [secure]")
    sites = joint_sites("lab", "north", helpers=("notary",))
    with running_federation(sites, prepare=make_ledgers) as federation:
        said = check_run(federation, "logistic", engine="spu", reference=expected(federation))
        assert re.search(r"joint computation: (second moments|pass \d+ of \d+)", said.stderr)
        assert not federation.parts("notary")
        facts = json.loads(federation.command("status", federation.kit("notary"), "--json").stdout)
        assert facts["helper"] is True and facts["runs"][0]["refusals"] == 0
        # no helper takes part in other trainings: it may be away
        federation.stop("notary")
        federation.train(
            "--model", "logistic", "--epsilon", EPSILON, "--delta", DELTA, "--mechanism", "local-models"
        )  # fmt: skip


def test_three_parties():
    """No helper: the three with tables compute."""
    pytest.importorskip("spu", reason="joint training needs the extra [secure]")
    with running_federation(joint_sites("lab", "north", "bank"), prepare=make_ledgers) as federation:
        check_run(federation, "svm", engine="spu", reference=expected(federation, VerticalLinearSVC))


@pytest.mark.slow
def test_four_parties():
    """By shares of Shamir, which are for any number of sites."""
    with running_federation(joint_sites("lab", "north", "bank", "shop"), prepare=make_ledgers) as federation:
        said = federation.train("--model", "logistic", *PRIVATE, "--json", seconds=240)
        assert json.loads(said.stdout)["people"] == 200
        check_receipt(federation, federation.runs()[-1], "shamir", federation.names)
