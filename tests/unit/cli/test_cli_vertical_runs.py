"""What ``train`` and ``predict`` share."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from sottovoce.cli.vertical import _runs
from sottovoce.exceptions import PartyError
from sottovoce.vertical.flare.runs import RunSpec, new_run_name, run_state


class Office:
    def wait_for_parties(self, seconds, say):
        raise PartyError("party 'bank' not connected")


def test_a_run_that_could_not_begin_is_not_waiting_for_ever(tmp_path, monkeypatch):
    @contextmanager
    def office(kit):
        yield Office()

    monkeypatch.setattr(_runs, "open_office", office)
    kit = SimpleNamespace(runs=tmp_path, folder=tmp_path, federation=SimpleNamespace(names=("insurer", "bank")))
    spec = RunSpec(run=new_run_name())
    folder = spec.write(tmp_path)
    assert run_state(folder)["phase"] == "waiting"
    with pytest.raises(PartyError, match="bank"):
        _runs.do_run(kit, spec, wait=0.0, quiet=True)
    assert run_state(folder)["phase"] == "failed"
    assert "bank" in run_state(folder)["error"]
