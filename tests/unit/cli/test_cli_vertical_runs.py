"""What ``train`` and ``predict`` share."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from sottovoce.cli.vertical import _runs
from sottovoce.exceptions import PartyError
from sottovoce.vertical.flare.runs import RunSpec, new_run_name


class Office:
    def wait_for_parties(self, seconds, say):
        raise PartyError("party 'bank' not connected")


def test_a_run_that_could_not_begin_leaves_nothing_behind(tmp_path, monkeypatch):
    @contextmanager
    def office(kit):
        yield Office()

    monkeypatch.setattr(_runs, "open_office", office)
    spec = RunSpec(run=new_run_name())
    with pytest.raises(PartyError, match="bank"):
        _runs.do_run(SimpleNamespace(folder=tmp_path), spec, lambda: spec.write(tmp_path), wait=0.0, quiet=True)
    assert not list(tmp_path.iterdir())
