"""What ``train`` and ``predict`` share."""

import signal
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest

from sottovoce.cli.vertical import _runs
from sottovoce.cli.vertical._runs import _interruptible
from sottovoce.exceptions import PartyError
from sottovoce.vertical.flare.runs import RunSpec, list_runs, new_run_name, run_state


class Office:
    def __init__(self, missing):
        self.missing = missing

    def wait_for_parties(self, seconds, say, names):
        if self.missing:
            raise PartyError("party 'bank' is not connected")

    def submit(self, spec):
        raise PartyError("the coordinator did not take the run")


@pytest.mark.parametrize("missing", [True, False])
def test_a_run_that_could_not_begin_is_not_waiting_for_ever(tmp_path, monkeypatch, missing):
    """Where a party is missing it is not written down; where the job is not taken it has failed."""

    @contextmanager
    def office(kit):
        yield Office(missing)

    monkeypatch.setattr(_runs, "open_office", office)
    kit = SimpleNamespace(
        runs=tmp_path, folder=tmp_path, federation=SimpleNamespace(names=("insurer", "bank"), with_tables=("bank",))
    )
    spec = RunSpec(run=new_run_name())
    with pytest.raises(PartyError, match="bank" if missing else "did not take"):
        _runs.do_run(kit, spec, wait=0.0, quiet=True)
    states = [run_state(folder)["phase"] for folder in list_runs(tmp_path)]
    assert states == ([] if missing else ["failed"])


def test_an_interrupt_that_the_engine_swallows_is_raised_all_the_same():
    """FLARE's client catches what comes while it is asked."""
    told = []
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), _interruptible(told.append) as tell:
        tell("going on")
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        tell("not told any more")
    assert told == ["going on"]
    assert signal.getsignal(signal.SIGINT) is before


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
