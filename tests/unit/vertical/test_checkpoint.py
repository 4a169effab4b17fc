"""What a coordinator keeps of a run: the same run goes on, another one is refused."""

import shutil
import stat
import sys
from contextlib import suppress

import numpy as np
import pytest

from sottovoce.exceptions import BudgetError, LedgerError, ParameterError, PartyError, StorageError
from sottovoce.ledger import Ledger
from sottovoce.privacy.events import GaussianEvent
from sottovoce.vertical import Party, VerticalLogisticRegression
from sottovoce.vertical.coordinator.checkpoint import Checkpoint, Run
from sottovoce.vertical.requests.local_models import TrainOnLabels
from support.crossing import recorded
from support.interrupted import HOME, OTHERS, Federation, Killed, at, at_line, tables

TABLES, LABELS = tables()
PRIVATE = {"epsilon": 2.0, "delta": 1e-6, "classes": [-1, 1]}


def test_it_draws_the_same_again_and_nothing_twice(tmp_path):
    drawn = []
    for _ in range(2):
        checkpoint = Checkpoint(tmp_path / "run")
        runs = [checkpoint.new_run().of("plan", [1, 2]) for _ in range(2)]
        drawn.append([(run.model, run.charge) for run in runs])
        assert len({name for each in drawn[-1] for name in each}) == 4
        checkpoint.close()
    assert drawn[0] == drawn[1]
    assert Checkpoint(tmp_path / "other").new_run().of("plan", [1, 2]).model != drawn[0][0][0]


def test_a_run_of_other_facts_is_refused(tmp_path):
    facts = {"epsilon": 1.0, "parties": ["a", "b"], "bounds": (0, 1)}
    Checkpoint(tmp_path / "run", facts).close()
    Checkpoint(tmp_path / "run", facts).close()
    with pytest.raises(ParameterError, match=r"epsilon is 2.0, and the run in .* was begun with 1.0. Resume it with"):
        Checkpoint(tmp_path / "run", {**facts, "epsilon": 2.0})
    with pytest.raises(ParameterError, match="parties is None"):
        Checkpoint(tmp_path / "run", {"epsilon": 1.0, "bounds": (0, 1)})
    Checkpoint(tmp_path / "run", facts).close()  # a refusal leaves it as it is


def test_labels_that_were_changed_are_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run")
    assert checkpoint.released("a", lambda: b"\1\xff") == checkpoint.released("a", lambda: b"\xff\1") == b"\1\xff"
    checkpoint.close()
    path = tmp_path / "run" / "a.kept"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    with pytest.raises(StorageError, match="was damaged"):
        Checkpoint(tmp_path / "run").released("a", lambda: b"\1\xff")


def test_it_is_for_one_process_and_its_owner(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run", {"epsilon": 1.0})
    checkpoint.released("a", lambda: b"\1")
    with pytest.raises(StorageError, match="held by another process"):
        Checkpoint(tmp_path / "run")
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir()} == {0o600}
    checkpoint.end()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["facts.json", "lock"]
    with pytest.raises(StorageError, match="another process's"):
        checkpoint.released("a", lambda: b"\1")


def test_a_run_whose_key_is_gone_is_not_done_anew(tmp_path):
    """Whether it has ended, or somebody removed the key or all of it: another key would train and charge again."""
    Checkpoint.begin(tmp_path / "run")
    checkpoint = Checkpoint(tmp_path / "run", begun=True)
    checkpoint.close()
    (tmp_path / "run" / "key").unlink()
    with pytest.raises(StorageError, match="has no key any more: the run has ended, or its checkpoint was removed"):
        Checkpoint(tmp_path / "run")
    with pytest.raises(StorageError, match="has no key any more"):
        Checkpoint(tmp_path / "never", begun=True)


# --- in a fit ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def organisations(tmp_path):
    made = Federation(tmp_path, TABLES, {"data_norm": 1.0}, limited=True)
    yield made
    made.end(*made.parties)


def model(made, **options):
    return VerticalLogisticRegression(**{**PRIVATE, **options}, ledger=made.ledger("labels"), dataset="people")


def states(made):
    return [each.state for each in made.ledger("labels").history("people")]


def stopped_before_labels_leave(made, monkeypatch, error):
    """Fit until the label holder's own model would be trained: the charge is there, and nothing has left."""

    def stop(*_):
        raise error

    with monkeypatch.context() as patch, pytest.raises(type(error)):
        patch.setattr("sottovoce.vertical.coordinator.local_models.train_alone", stop)
        model(made).fit(made.start(), LABELS)


def test_a_fit_finds_its_own_charge(organisations, monkeypatch):
    made = organisations
    stopped_before_labels_leave(made, monkeypatch, Killed())
    assert states(made) == ["reserved"]
    made.end(HOME)
    with pytest.raises(Killed):
        model(made).fit(made.start(cut=at(3, "before", Killed())), LABELS)
    assert states(made) == ["committed"]  # the labels may have left
    made.end(HOME)
    fitted = model(made).fit(made.start(), LABELS)
    assert states(made) == ["committed"]
    made.end(HOME)
    again = model(made).fit(made.start(), LABELS)  # it was killed before the results were written
    assert states(made) == ["committed"]
    assert again.charge_.charge == fitted.charge_.charge
    assert again.charge_ == fitted.charge_
    assert again.model_ == fitted.model_
    assert {name: len(each) for name, each in made.charges().items()} == {"labels": 1, **dict.fromkeys(OTHERS, 1)}


def test_other_labels_are_another_training(organisations):
    """It is charged for everywhere: the labels of the first one may have left."""
    made = organisations
    with pytest.raises(Killed):
        model(made).fit(made.start(cut=at(3, "after", Killed())), LABELS)
    made.end(HOME)
    model(made).fit(made.start(), -LABELS)
    assert states(made) == ["committed", "committed"]
    assert {name: len(each) for name, each in made.charges().items()} == {"labels": 2, **dict.fromkeys(OTHERS, 2)}


def test_a_failure_after_a_resumption_gives_no_charge_back(organisations, monkeypatch):
    """What the first execution looked at nobody knows."""
    made = organisations
    stopped_before_labels_leave(made, monkeypatch, Killed())
    made.end(HOME)
    with pytest.raises(PartyError, match="is gone"):
        model(made).fit(made.start(cut=at(1, "bank", ConnectionError())), LABELS)
    made.end(HOME)
    stopped_before_labels_leave(made, monkeypatch, PartyError("home failed"))
    assert states(made) == ["reserved"]


def test_a_cancelled_charge_is_not_found(organisations, monkeypatch):
    made = organisations
    stopped_before_labels_leave(made, monkeypatch, Killed())
    (charge,) = made.ledger("labels").history("people")
    made.ledger("labels").cancel(charge.charge, "nobody learnt anything")
    made.end(HOME)
    model(made).fit(made.start(), LABELS)
    assert states(made) == ["cancelled", "committed"]


# --- noisy labels -----------------------------------------------------------------------------------------------------


def fit_and_watch(made, left, tracer=None, **start):
    """Fit, and add to ``left`` the labels that the parties were sent."""
    parties = made.start(**start)
    with recorded(parties) as seen:
        try:
            sys.settrace(tracer)
            return model(made).fit(parties, LABELS)
        finally:
            sys.settrace(None)
            left |= {each.message.labels.tobytes() for each in seen if isinstance(each.message, TrainOnLabels)}


def test_the_noise_of_labels_follows_from_no_key(tmp_path):
    """Whoever reads the folder before the labels leave cannot tell their noise."""
    left = set()
    for place in ("one", "two"):
        made = Federation(tmp_path / place, TABLES, {"data_norm": 1.0}, limited=True)
        fit_and_watch(made, left)
        made.end(*made.parties)
    assert (tmp_path / "one" / "run" / "key").read_bytes() == (tmp_path / "two" / "run" / "key").read_bytes()
    assert len(left) == 2


def test_a_run_releases_its_labels_once_wherever_it_is_killed(tmp_path):
    """At lines that are drawn among those of its plan, its memory, its charge and its line to the parties."""
    draw, n_killed = np.random.default_rng(3), 0
    most = 400  # lines; the first fit counts them
    for number in range(6):
        made, left = Federation(tmp_path / str(number), TABLES, {"data_norm": 1.0}, limited=True), set()
        for place in (*draw.integers(1, most, 2), 0, 0):
            executed, tracer = at_line(place, "coordinator", "charging", "ledger.py", "local_models/plan")
            try:
                fit_and_watch(made, left, tracer)
            except Killed:
                n_killed += 1
            most = max(most, executed[0])
            made.end(HOME)
        assert len(left) == 1
        assert states(made) == ["committed"]
        made.end(*made.parties)
    assert n_killed >= 6


@pytest.mark.parametrize("seed", range(3))
def test_copies_of_a_run_in_any_order_under_an_owner_who_cancels_pay_for_each_labels_that_leave(organisations, seed):
    """Three copies, killed at lines that are drawn; parties that remember nothing; charges given back by hand."""
    made, left, draw, most = organisations, set(), np.random.default_rng(seed), 400
    with pytest.raises(Killed):
        fit_and_watch(made, left, cut=at(1, "before", Killed()))
    made.end(*made.parties)
    for name in (HOME, *OTHERS):
        shutil.rmtree(made.folder / name)
    for name in "abc":
        shutil.copytree(made.folder / "run", made.folder / name)
    shutil.rmtree(made.folder / "run")
    for _ in range(9):
        copy = made.folder / str(draw.choice(list("abc")))
        copy.rename(made.folder / "run")
        place = draw.integers(most) if draw.random() < 0.7 else 0
        executed, tracer = at_line(place, "coordinator", "charging", "ledger.py", "local_models/plan")
        with suppress(Killed, LedgerError, PartyError):
            fit_and_watch(made, left, tracer)
        most = max(most, executed[0])
        made.end(*made.parties)
        for name in (HOME, *OTHERS):
            shutil.rmtree(made.folder / name)
        (made.folder / "run").rename(copy)
        for each in made.ledger("labels").history("people"):
            if each.state == "reserved" and draw.random() < 0.3:
                made.ledger("labels").cancel(each.charge, "by hand")
    assert 1 <= len(left) <= states(made).count("committed")


def test_what_a_party_refuses_before_labels_have_left_keeps_them_at_home(organisations, monkeypatch):
    """It promised to pay in an execution that was killed before it stored them, and paid somebody else meanwhile."""
    stopped_before_labels_leave(organisations, monkeypatch, Killed())
    organisations.end(HOME)
    organisations.ledger(OTHERS[0]).reserve("people", GaussianEvent(0.15), delta=1e-6, adjacency="replace-one")
    left = set()
    with pytest.raises(PartyError, match="its budget is"):
        fit_and_watch(organisations, left)
    assert not left


def test_a_fit_without_a_checkpoint_draws_anew():
    run = Run()
    assert run.of("plan", [1]) is run
    assert run.model != run.model
    assert run.charge is None


def test_what_a_run_draws_depends_on_the_training_and_the_labels(tmp_path):
    run = Checkpoint(tmp_path / "run").new_run()
    drawn = [
        run.of(plan, labels).charge
        for plan, labels in [
            ("plan", [1, 2]), ("plan", [1, 3]), ("plan", [1.0, 2.0]), ("plan", ["1", "2"]), ("plan", ["1, 2"]),
            ("other", [1, 2]),
        ]
    ]  # fmt: skip
    assert len(set(drawn)) == 6
    assert run.of("plan", np.array([1, 2])).charge == drawn[0]


def test_the_plan_is_written_without_addresses(organisations):
    """Its text must be the same in another process."""
    parties = organisations.start()
    assert " at 0x" not in repr(model(organisations).plan(parties))
    assert " at 0x" not in repr(VerticalLogisticRegression(epsilon=np.inf).plan(parties))


def test_a_budget_that_is_spent_refuses_a_new_run_and_not_a_resumed_one(tmp_path):
    made = Federation(tmp_path, TABLES, {"data_norm": 1.0}, limited=False)
    ledger = Ledger(f"sqlite:///{tmp_path / 'small.db'}")
    ledger.create("people", epsilon=2.0, delta=1e-6, adjacency="replace-one")

    def fit(**start):
        return VerticalLogisticRegression(**PRIVATE, ledger=ledger, dataset="people").fit(made.start(**start), LABELS)

    with pytest.raises(Killed):
        fit(cut=at(3, "after", Killed()))
    made.end(HOME)
    fit()
    with pytest.raises(BudgetError):
        others = [Party(TABLES[name], name=name, data_norm=1.0) for name in TABLES]
        VerticalLogisticRegression(**PRIVATE, ledger=ledger, dataset="people").fit(others, LABELS)
    made.end(*made.parties)
