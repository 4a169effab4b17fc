"""Where a joint computation is, in words; which runs cannot be taken up again; which sites take part in one."""

from types import SimpleNamespace

import numpy as np
import pytest

from sottovoce.vertical import Party, VerticalLogisticRegression
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.flare.progress import Progress, read_progress
from sottovoce.vertical.flare.runs import RunSpec, why_not_resumed
from sottovoce.vertical.protocols.secure import messages


class Told(InProcessParties):
    """Parties of one process that write down what each request was part of."""

    def __init__(self, parties):
        self.said = []
        super().__init__(parties)

    def _send(self, requests):
        self.said.append(self.doing.removeprefix("joint computation: "))
        return super()._send(requests)


def test_each_request_says_where_the_computation_is(monkeypatch):
    monkeypatch.setattr(messages, "_WAIT", 0.0)
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (60, 4))
    parties = Told([Party(X[:, :2], name="lab", data_norm=1.0), Party(X[:, 2:], name="north", data_norm=1.0)])
    VerticalLogisticRegression(
        mechanism="secure", classes=[0, 1], epsilon=2.0, delta=1e-4, mechanism_options={"n_passes": 3}
    ).fit(parties, (X[:, 0] > 0.0).astype(int))
    said = list(dict.fromkeys(parties.said))
    assert said[:4] == ["", "sites are invited", "the sites' engines meet", "second moments"]
    assert set(said[4:-1]) <= {f"pass {step} of 3" for step in (1, 2, 3)}
    assert said[-1] == "the model is kept"
    assert parties.said[-1] == ""


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
