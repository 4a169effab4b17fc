"""A run ends once, wherever it is killed and however often it is resumed.

The law: over the folder of one run, and for every request before which its process is killed, twice over, each party
and the label holder are charged at most once, what was written as a result is never replaced, and the run can be
brought to its end, once. The folder, the checkpoint, journals, ledgers, doors and the coordinator's program are real;
calls take the place of a network. That two processes do not do it at once is the lock of the kit: `test_kit`.
"""

import shutil
from contextlib import suppress
from itertools import product

import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.ledger import Ledger
from sottovoce.vertical.coordinator.checkpoint import Checkpoint
from sottovoce.vertical.flare import runs
from sottovoce.vertical.flare.hardening.gate import Door
from sottovoce.vertical.flare.programs import execute
from sottovoce.vertical.flare.runs import CHECKPOINT, RunSpec, new_run_name, read_progress
from support.interrupted import Killed
from support.pairs import every_second
from support.run_sites import Sites, kit_of

PARAMETERS = {"epsilon": 2.0, "delta": 1e-3, "mechanism": "local-models"}
PARTY = "north"
RESULTS = (".receipt.json", ".part.json", "guarantee.json", "coordinator.json")


class Machine:
    """One run over a coordinator and a party; ``processes`` says whether the party's is another one each time."""

    def __init__(self, folder, site, *, processes):
        shutil.copytree(site, folder)
        self.home, self.kit = (kit_of(folder, name, (PARTY,)) for name in ("insurer", PARTY))
        self.door, self._processes = Door(self.kit), processes
        self.results = {}
        self.spec = RunSpec(run=new_run_name(), parameters=PARAMETERS)
        self.folder = self.spec.write(self.home.runs)

    def execute(self, kill=None):
        """Do the run, or go on with it; it is killed before its ``kill``-th request. Return how many there were."""
        if read_progress(self.folder) is not None:
            self.spec.begin_again(self.folder)
        asked, door = 0, self.door

        def call(name, raw, seconds):
            nonlocal asked
            asked += 1
            if kill is not None and asked >= kill:
                raise Killed
            return door.answer(raw, "server")

        with suppress(Killed):
            execute(self.home, self.spec.run, call)
        if self._processes:
            door.close()
            self.door = Door(self.kit)
        assert all(n <= 1 for n in self.charges().values()), self.charges()
        for path in self.folder.glob("*"):
            if path.name.endswith(RESULTS) and path.stat().st_size:
                assert self.results.setdefault(path.name, path.read_bytes()) == path.read_bytes(), path.name
        return asked

    def charges(self):
        return {kit.name: len(Ledger(f"sqlite:///{kit.folder / 'ledger.db'}").history("people"))
                for kit in (self.home, self.kit)}  # fmt: skip

    def finish(self):
        """Bring the run to its end; then nothing is done any more."""
        if read_progress(self.folder)["phase"] != "done":
            self.execute()
        assert read_progress(self.folder)["phase"] == "done", read_progress(self.folder)
        assert self.charges() == {"insurer": 1, PARTY: 1}
        with pytest.raises(ParameterError, match="this run has ended, and its results stay as they are"):
            self.execute()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Three sites with accounts; one party is enough."""
    folder = tmp_path_factory.mktemp("sites")
    sites = Sites(folder)
    for kit in sites.kits[:2]:
        text = kit.site_file.read_text().replace('"exact", ', "").replace('"alignment", "score"', '"alignment"')
        kit.site_file.write_text(text + '[budget]\nledger = "sqlite:///ledger.db"\ndataset = "people"\n')
        Ledger(f"sqlite:///{kit.folder / 'ledger.db'}").create(
            "people", epsilon=100.0, delta=1e-2, adjacency="replace-one"
        )
    return folder


@pytest.mark.parametrize("processes", every_second([True, False]))
def test_whenever_a_run_is_killed(tmp_path, site, processes):
    whole = Machine(tmp_path / "whole", site, processes=processes).execute()
    for number, (first, second) in enumerate(product(range(1, whole + 1), [None, *range(2, whole + 1)])):
        machine = Machine(tmp_path / str(number), site, processes=processes)
        for kill in (first, second):
            if read_progress(machine.folder) is None or read_progress(machine.folder)["phase"] != "done":
                machine.execute(kill)
        machine.finish()
    assert number > 20


@pytest.mark.parametrize("lost", ["key", "all"])
def test_a_run_that_finds_no_checkpoint_ends_with_an_error(tmp_path, site, lost):
    """It had one: training anew would charge everybody once more."""
    machine = Machine(tmp_path / "sites", site, processes=False)
    machine.execute(4)
    if lost == "key":
        (machine.folder / CHECKPOINT / "key").unlink()
    else:
        shutil.rmtree(machine.folder / CHECKPOINT)
    before = machine.charges()
    assert machine.execute() == 2, "it began and ended"
    told = read_progress(machine.folder)
    assert told["phase"] == "failed"
    assert "has no key any more: the run has ended, or its checkpoint was removed" in told["error"]
    assert machine.charges() == before


def test_results_that_were_written_before_the_end_stay(tmp_path, site, monkeypatch):
    """A disk that was full as the run wrote down that it has ended: it is resumed, and nothing is replaced."""
    machine = Machine(tmp_path / "sites", site, processes=False)
    with monkeypatch.context() as patch:
        write = runs.write_whole

        def full(path, text, **how):
            if '"phase": "done"' in text:
                raise OSError(28, "No space left on device")
            write(path, text, **how)

        patch.setattr(runs, "write_whole", full)
        machine.execute()
    assert (machine.folder / "coordinator.json").exists()
    assert read_progress(machine.folder)["phase"] == "failed"
    machine.finish()


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()], ids=["disk", "Ctrl-C"])
def test_what_fails_after_the_end_makes_no_failed_run_of_one_that_is_done(tmp_path, site, monkeypatch, error):
    machine = Machine(tmp_path / "sites", site, processes=False)

    def fail(self):
        raise error

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(Checkpoint, "end", fail)
        machine.execute()
    assert read_progress(machine.folder)["phase"] == "done"
    machine.finish()
