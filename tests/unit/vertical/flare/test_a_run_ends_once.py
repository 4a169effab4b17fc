"""A run ends once, whatever is killed, resumed, queued and started in whatever order.

The law: over the folder of one run, and for every sequence of up to four (in the slow test five) of the steps of
`Machine`, each party and the label holder are charged at most once, what was written as a result is never replaced, and
from wherever a sequence left it the run can be brought to its end, once. The folder, the checkpoint, journals, ledgers,
the commands' own code and the coordinator's program are real; the engine is a list of jobs, of which one is under way
at a time.
"""

import json
import shutil
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from sottovoce.cli.vertical._runs import submitted
from sottovoce.exceptions import SottovoceError
from sottovoce.ledger import Ledger
from sottovoce.vertical.flare import progress
from sottovoce.vertical.flare.hardening.envelope import _parts
from sottovoce.vertical.flare.hardening.gate import Gate
from sottovoce.vertical.flare.jobs import Office
from sottovoce.vertical.flare.programs import execute
from sottovoce.vertical.flare.progress import read_progress
from sottovoce.vertical.flare.runs import CHECKPOINT, RunSpec, new_run_name
from support.interrupted import Killed
from support.run_sites import Sites, kit_of

STEPS = ("next", "go", "crash", "end", "kill", "resume")
PARAMETERS = {"epsilon": 2.0, "delta": 1e-3, "mechanism": "local-models"}
PARTY = "north"
RESULTS = (".receipt.json", ".part.json", "guarantee.json", "coordinator.json", "ended.json")


class Job:
    """A job of the engine, and its process: a thread that stops before each request to the party until it is let go."""

    def __init__(self, sites, name):
        self.name, self.status, self.n_asked = name, "SUBMITTED", 0
        self._sites, self._may, self._is_killed = sites, 0, False
        self._changed = threading.Condition()
        self._at_rest = False

    def start(self):
        self.status = "RUNNING"
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        self._rest()

    def go(self, n_requests):
        with self._changed:
            self._may, self._at_rest = self.n_asked + n_requests, False
            self._changed.notify_all()
        self._rest()

    def crash(self):
        self._is_killed = True
        self.go(0)
        assert self.status != "RUNNING"

    def _rest(self):
        with self._changed:
            assert self._changed.wait_for(lambda: self._at_rest, 60)

    def _work(self):
        run = self.name.partition("-")[2]
        kit = self._sites.kits[1]
        gate = Gate("train")
        gate.open(kit, run=self.name)

        def call(name, raw, seconds):
            if not _parts(raw)[2]:  # the envelope that opens the line
                return gate.answer(raw, caller="server")
            with self._changed:
                if self.n_asked >= self._may:
                    self._at_rest = True
                    self._changed.notify_all()
                assert self._changed.wait_for(lambda: self.n_asked < self._may or self._is_killed, 60)
                if self._is_killed:
                    raise Killed
                self.n_asked += 1
            return gate.answer(raw, caller="server")

        try:
            with suppress(Killed):
                execute(self._sites.home, run, self.name, call, stopped=lambda: False)
        finally:
            gate.close()
            with self._changed:
                self.status, self._at_rest = "FINISHED", True
                self._changed.notify_all()


class Engine:
    """What an `Office` asks: a queue of jobs, one at a time."""

    def __init__(self, sites):
        self.sites, self.jobs = sites, []

    def list_jobs(self, name_prefix):
        return [{"job_id": id(job), "status": job.status} for job in self.jobs if job.name.startswith(name_prefix)]

    def get_system_info(self):
        return SimpleNamespace(job_info=[SimpleNamespace(job_id=id(job)) for job in (self.running,) if job])

    def submit_job(self, folder):
        self.jobs.append(Job(self.sites, json.loads((Path(folder) / "meta.json").read_text())["name"]))
        return str(len(self.jobs))

    @property
    def running(self):
        return next((job for job in self.jobs if job.status == "RUNNING"), None)

    @property
    def waiting(self):
        return next((job for job in self.jobs if job.status == "SUBMITTED"), None)


class Machine:
    """One run, its commands and its jobs.

    start   a command writes the run down and submits its job; it goes on following it
    kill    the command is killed; its job goes on
    resume  another command: it is refused, or submits a job and follows it
    next    the engine starts the job that waits first, where none is under way
    go      the job that is under way asks the party twice more
    crash   its process is killed
    end     it goes on to its end
    """

    def __init__(self, folder, site):
        shutil.copytree(site, folder)
        kits = [kit_of(folder, name, (PARTY,)) for name in ("insurer", PARTY)]
        self.sites = SimpleNamespace(kits=kits, home=kits[0])
        self.engine = Engine(self.sites)
        self.office = Office(self.sites.home, self.engine)
        self.command = ExitStack()
        self.following = False
        self.results = {}
        self.spec = RunSpec(run=new_run_name(), parameters=PARAMETERS)
        self.folder = self.sites.home.runs / self.spec.run
        self._submit(again=False)

    def possible(self):
        running = self.engine.running
        return [step for step in STEPS if {
            "next": running is None and self.engine.waiting is not None, "go": running is not None,
            "crash": running is not None, "end": running is not None, "kill": self.following, "resume": True,
        }[step]]  # fmt: skip

    def do(self, step):
        running = self.engine.running
        if step == "next":
            self.engine.waiting.start()
        elif step == "go":
            running.go(1)
        elif step == "crash":
            running.crash()
        elif step == "end":
            running.go(10**6)
        elif step == "kill":
            self.command.close()
            self.following = False
        else:
            with suppress(SottovoceError):
                self._submit(again=True)
        self.check()

    def _submit(self, *, again):
        self.command.enter_context(submitted(self.sites.home, self.office, self.spec, again=again))
        self.following = True

    def check(self):
        """Nobody was charged twice, and no result is another one than before."""
        assert all(n <= 1 for n in self.charges().values()), self.charges()
        for path in self.folder.glob("*"):
            if path.name.endswith(RESULTS) and path.stat().st_size:
                assert self.results.setdefault(path.name, path.read_bytes()) == path.read_bytes(), path.name

    def charges(self):
        return {kit.name: len(Ledger(f"sqlite:///{kit.folder / 'ledger.db'}").history("people"))
                for kit in self.sites.kits}  # fmt: skip

    def finish(self):
        """Let the engine do what it has; resume the run until it has ended; then nothing is done any more."""
        for _ in range(3):
            while self.engine.running or self.engine.waiting:
                self.do("end" if self.engine.running else "next")
            if "kill" in self.possible():
                self.do("kill")
            if (read_progress(self.folder) or {}).get("phase") == "done":
                break
            self.do("resume")
        assert read_progress(self.folder)["phase"] == "done", read_progress(self.folder)
        assert self.charges() == {"insurer": 1, PARTY: 1}
        before = len(self.engine.jobs)
        self.do("resume")
        assert len(self.engine.jobs) == before, "a run that has ended was taken up again"
        self.engine.jobs.append(Job(self.sites, f"train-{self.spec.run}"))  # one that was submitted long ago
        self.do("next")
        assert self.engine.running is None
        assert self.engine.jobs[-1].n_asked == 0
        assert read_progress(self.folder)["phase"] == "done"
        self.check()


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


def sequences(machine_of, depth):
    """Return all sequences of possible steps of this length, each done; a shorter one is the beginning of one."""
    done, branches = [], [[]]
    while branches:
        machine, taken = machine_of(), branches.pop()
        for step in taken:
            machine.do(step)
        while len(taken) < depth:
            first, *others = machine.possible()
            branches += [[*taken, other] for other in others]
            taken = [*taken, first]
            machine.do(first)
        machine.finish()
        done.append(taken)
    return done


@pytest.mark.parametrize(("depth", "least"), [(3, 30), pytest.param(5, 280, marks=pytest.mark.slow)])
def test_all_interleavings(tmp_path, site, depth, least):
    made = iter(range(10**6))
    found = sequences(lambda: Machine(tmp_path / str(next(made)), site), depth)
    assert len(set(map(tuple, found))) == len(found) >= least


@pytest.mark.parametrize("lost", ["key", "all"])
def test_a_job_that_finds_no_checkpoint_ends_with_an_error(tmp_path, site, lost):
    """It had one: training anew would charge everybody once more."""
    machine = Machine(tmp_path / "sites", site)
    for step in ("next", "go", "go", "crash", "kill"):
        machine.do(step)
    if lost == "key":
        (machine.folder / CHECKPOINT / "key").unlink()
    else:
        shutil.rmtree(machine.folder / CHECKPOINT)
    before = machine.charges()
    for step in ("resume", "next"):
        machine.do(step)
    assert machine.engine.running is None
    assert machine.engine.jobs[-1].n_asked == 0
    told = read_progress(machine.folder)
    assert told["phase"] == "failed"
    assert "has no key any more: the run has ended, or its checkpoint was removed" in told["error"]
    assert machine.charges() == before


def test_results_that_were_written_before_the_end_stay(tmp_path, site, monkeypatch):
    """A disk that was full as the run wrote down that it has ended: it is resumed, and nothing is replaced."""
    machine = Machine(tmp_path / "sites", site)
    with monkeypatch.context() as patch:
        write = progress.write_whole

        def full(path, text, **how):
            if path.name == progress.ENDED:
                raise OSError(28, "No space left on device")
            write(path, text, **how)

        patch.setattr(progress, "write_whole", full)
        for step in ("next", "end", "kill"):
            machine.do(step)
    assert (machine.folder / "coordinator.json").exists()
    assert read_progress(machine.folder)["phase"] == "failed"
    machine.finish()
