"""What ``train`` and ``predict`` share."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from sottovoce.cli.vertical import _runs
from sottovoce.exceptions import PartyError
from sottovoce.vertical.flare.runs import RunSpec, list_runs, new_run_name, run_state


def do(tmp_path, monkeypatch, execute, wait_for_parties=lambda *asked: None):
    """Do a run without a network; return what it was."""

    @contextmanager
    def listening(kit):
        yield SimpleNamespace(wait_for_parties=wait_for_parties, call=None)

    monkeypatch.setattr(_runs, "listening", listening)
    monkeypatch.setattr(_runs, "execute", execute)
    kit = SimpleNamespace(
        runs=tmp_path, folder=tmp_path, federation=SimpleNamespace(names=("insurer", "bank"), with_tables=("bank",))
    )
    return _runs.do_run(kit, RunSpec(run=new_run_name()), wait=0.0, quiet=True)


def test_a_run_is_not_written_down_where_a_party_is_missing(tmp_path, monkeypatch):
    def missing(seconds, say, names):
        raise PartyError(f"party {names[0]!r} is not connected")

    with pytest.raises(PartyError, match="'bank'"):
        do(tmp_path, monkeypatch, None, missing)
    assert list_runs(tmp_path) == []


def test_a_run_whose_process_was_killed_is_not_under_way_for_ever(tmp_path, monkeypatch):
    def killed(kit, run, call):
        raise SystemExit

    with pytest.raises(SystemExit):
        do(tmp_path, monkeypatch, killed)
    (folder,) = list_runs(tmp_path)
    assert (run_state(folder, busy=True)["phase"], run_state(folder, busy=False)["phase"]) == ("waiting", "stopped")


def test_an_interrupt_says_how_to_go_on(tmp_path, monkeypatch):
    def interrupted(kit, run, call):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as told:
        do(tmp_path, monkeypatch, interrupted)
    (folder,) = list_runs(tmp_path)
    assert f"--resume {folder.name}" in told.value.__notes__[0]


def test_a_training_says_what_is_left_of_it(monkeypatch):
    """After 3 of 12 passes in 30 seconds, 90 more."""
    monkeypatch.setattr(_runs.time, "time", lambda: 1030.0)
    state = {
        "phase": "training", "note": "joint computation: pass 3 of 12", "rounds": 5, "bytes_down": 2000,
        "bytes_up": 100, "started": 1000.0, "people": 4000, "asking": None, "parties": {},
    }  # fmt: skip
    said = _runs.progress_text(state)
    assert said.startswith("training, joint computation: pass 3 of 12, 4,000 people: 5 rounds, 2,000 bytes down")
    assert said.endswith("some 90 s left")
    assert "left" not in _runs.progress_text({**state, "note": None})
