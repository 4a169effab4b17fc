"""Where a joint computation is, in words; which runs cannot be taken up again; which sites take part in one."""

from types import SimpleNamespace

import numpy as np
import pytest

from sottovoce.vertical.flare.parties import JointNotes
from sottovoce.vertical.flare.progress import Progress, read_progress
from sottovoce.vertical.flare.runs import RunSpec, why_not_resumed
from sottovoce.vertical.frames import Frame, new_session
from sottovoce.vertical.protocols.general.messages import Close
from sottovoce.vertical.protocols.secure.joint_plan import Block, JointPlan
from sottovoce.vertical.protocols.secure.messages import (
    AskConnected,
    Connect,
    Invite,
    Join,
    KeepJoint,
    StepJointly,
    TakeOpened,
)

PLAN = JointPlan(
    n_samples=1000, blocks=(Block("lab", 2, 1.0, False), Block("north", 2, 1.0, False)), helpers=(), label_holder="lab",
    loss="logistic", smoothing=0.5, label_bounds=None, alpha=0.01, fit_intercept=True, labels_public=False, epsilon=1.0,
    delta=1e-6, colluding=1, engine="in-process", n_passes=3,
)  # fmt: skip


def framed(message):
    return Frame(new_session(), 1, message.encode()).encode()


def test_each_request_says_where_the_computation_is():
    notes = JointNotes()
    said = []
    for message in (
        Invite(PLAN.text()), Connect("[]"), AskConnected(), Join(np.zeros(0)), TakeOpened(0),
        StepJointly(1), TakeOpened(3), KeepJoint("m"), Close(),
    ):  # fmt: skip
        notes.asked(framed(message))
        said.append(notes.note and notes.note.removeprefix("joint computation: "))
    assert said == [
        "sites are invited", "the sites' engines meet", "the sites' engines meet", "second moments", "second moments",
        "pass 1 of 3", "pass 3 of 3", "the model is kept", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "why"),
    [(["Describe"], ""), (["Invite", "Connect"], "Nothing was charged"), (["Invite", "Join"], "stays charged")],
)
def test_what_cannot_be_taken_up_again_is_on_disk_at_once(tmp_path, asked, why):
    """Whatever becomes of the process then."""
    progress = Progress(tmp_path, ["lab"])
    for what in asked:
        progress.asked(what, {"lab": 1}, note="joint computation: here")
    told = why_not_resumed(read_progress(tmp_path))
    assert (why in told) if why else told == ""
    progress.phase("failed", error="x")
    assert why_not_resumed(read_progress(tmp_path)) == told
    assert read_progress(tmp_path)["note"] is None


def test_helpers_take_part_where_they_are_asked_for():
    federation = SimpleNamespace(parties=("north", "notary"), with_tables=("north",))
    assert RunSpec(run="0a1b2c3d4e5f").sites(federation) == ("north",)
    assert RunSpec(run="0a1b2c3d4e5f", with_helpers=True).sites(federation) == ("north", "notary")
