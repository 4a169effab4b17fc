"""The ledger on SQLite and on a real PostgreSQL: budgets, the life of a charge, refusals, tampering, exports."""

import contextlib
import inspect
import itertools
import json
import math
import os
import pickle
import sqlite3
import sys
import threading
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import pytest
import sqlalchemy as sa
from sklearn.base import clone

import sottovoce as sv
from sottovoce._plain_data import canonical_text
from sottovoce.exceptions import AccountingError, BudgetError, LedgerError, LedgerIntegrityError, ParameterError
from sottovoce.ledger import Ledger, verify_export
from sottovoce.ledger.book import Book
from sottovoce.ledger.charging import OpenCharge, charging, is_charged
from sottovoce.ledger.entries import Entry
from sottovoce.ledger.ledger import Charge
from sottovoce.ledger.store import Store
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import GaussianEvent, NonPrivateEvent
from sottovoce.privacy.filters import COMPOSITIONS, Tally
from support.ledger import Clock

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
FIT = {"delta": 1e-6, "adjacency": "zero-out"}
EVENT = GaussianEvent(10.0)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'budget.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def ledger(url):
    made = Ledger(url, who="tester")
    made.create("people", composition="gaussian", **BUDGET)
    return made


@pytest.fixture
def lite(tmp_path):
    made = Ledger(f"sqlite:///{tmp_path / 'budget.db'}", who="tester")
    made.create("people", composition="gaussian", **BUDGET)
    return made


def test_the_life_of_a_charge(ledger):
    assert ledger.spent("people") == (0.0, 1e-6)
    charge = ledger.reserve("people", EVENT, plan={"n_samples": 100, "epsilon": math.inf}, **FIT)
    spent = ledger.spent("people")[0]
    assert 0.3 < spent < 0.4
    (record,) = ledger.history("people")
    assert (record.state, record.event, record.who, record.seq) == ("reserved", EVENT, "tester", charge.seq)
    assert record.plan == {"n_samples": 100, "epsilon": "inf"}
    assert record.code == f"sottovoce {version('sottovoce')}"
    assert (record.at, record.ended_at) == (datetime.now(UTC).date().isoformat(), None) and record.is_private
    end = ledger.commit(charge, EVENT)
    assert ledger.head() == end.hash != charge.hash
    (record,) = ledger.history("people")
    assert (record.state, record.committed_event) == ("committed", EVENT)
    assert ledger.spent("people")[0] == spent
    other = Ledger(ledger.url)
    other.cancel(other.reserve("people", EVENT, **FIT), "no noise was drawn")
    assert [record.state for record in ledger.history("people")] == ["committed", "cancelled"]
    assert ledger.history("people")[1].who.count("@") == 1
    assert ledger.spent("people")[0] == other.spent("people")[0] == spent
    assert ledger.verify(charge.hash).ok


def test_what_does_not_fit_is_refused_with_both_budgets(ledger):
    ledger.reserve("people", GaussianEvent(5.0), **FIT)
    before = ledger.head()
    with pytest.raises(BudgetError, match=r"epsilon=1\.0 at delta=1e-06, of which epsilon=0\.\d+ is spent") as caught:
        ledger.reserve("people", GaussianEvent(5.0), **FIT)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.budget == (1.0, 1e-6)
    assert error.spent == ledger.spent("people")[0] < 1.0 < error.asked
    assert str(error) == str(caught.value) and f"{error.asked:.6g}" in str(error)
    assert ledger.head() == before


def test_what_remains_fits_and_a_little_more_does_not(lite):
    lite.create("mixed", **BUDGET)
    for dataset in ("people", "mixed"):
        lite.reserve(dataset, EVENT, **FIT)
        remaining = lite.remaining(dataset)
        assert 0.3 < remaining < 1.0
        mu = sv.privacy.calibration.gaussian_mu(remaining * 1.001, 1e-6)
        with pytest.raises(BudgetError):
            lite.reserve(dataset, GaussianEvent(1.0 / mu), **FIT)
        mu = sv.privacy.calibration.gaussian_mu(remaining, 1e-6)
        lite.reserve(dataset, GaussianEvent(1.0 / mu), **FIT)
        assert lite.remaining(dataset) < 1e-3


def test_of_results_that_are_closed_at_once_as_many_stand_as_there_are_charges(url, ledger):
    """By several objects."""
    for _ in range(2):
        ledger.reserve("people", EVENT, plan={"run": "a run"}, **FIT)
    spent, stand = ledger.spent("people"), {}

    def close(result):
        _, record = Ledger(url).close_for("people", "a run", result)
        stand[result] = record.note == result and record.state == "committed"

    threads = [threading.Thread(target=close, args=(f"digest {k}",)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(stand) == 6
    assert sum(stand.values()) == 2
    for result, stands in stand.items():
        assert (ledger.close_for("people", "a run", result)[1].note == result) == stands
    assert ledger.spent("people") == spent
    assert ledger.close_for("people", "another run", "digest") is None
    assert ledger.verify().ok


def test_threads_share_one_object(lite):
    results = []

    def work():
        try:
            results.append(lite.reserve("people", GaussianEvent(15.0), **FIT))
        except BudgetError:
            results.append(None)

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = [charge for charge in results if charge]
    assert len(results) == 12 and len(kept) == len(lite.history("people"))
    assert lite.spent("people")[0] <= 1.0 and lite.remaining("people") < 0.3
    assert lite.verify().ok


def test_copies_and_pickles(lite, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = Ledger("sqlite:///budget.db", who="me", timeout=5)
    copies = [pickle.loads(pickle.dumps(relative)), deepcopy(relative)]
    monkeypatch.chdir("/")
    for copy in [relative, *copies]:
        assert copy.spent("people") == (0.0, 1e-6)
        assert (copy.who, copy.timeout) == ("me", 5.0)
    model = clone(sv.DPRidge(ledger=lite, dataset="people"))
    assert model.ledger.head() == lite.head() and model.dataset == "people"


def test_nothing_is_made_by_reading(tmp_path):
    path = tmp_path / "typo.db"
    for ask in (Ledger.datasets, Ledger.verify, Ledger.head, lambda made: made.spent("people")):
        with pytest.raises(LedgerError, match="there is no ledger at"):
            ask(Ledger(f"sqlite:///{path}"))
    assert not path.exists()
    path.write_bytes(b"")
    with pytest.raises(LedgerError, match="there is no ledger at"):
        Ledger(f"sqlite:///{path}").datasets()
    path.write_text("this is not a database, and long enough to be read as one" * 100)
    with pytest.raises(LedgerError, match="cannot be used now: file is not a database"):
        Ledger(f"sqlite:///{path}").datasets()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("budget.db", "sqlite:///PATH or postgresql"),
        ("sqlite://", "must be kept on disk"),
        ("sqlite:///:memory:", "must be kept on disk"),
        ("sqlite:///file:x?mode=memory&uri=true", "must be kept on disk"),
        ("mysql://host/db", "must be a SQLite file"),
        ("postgresql+psycopg2://host/db", "must be a SQLite file"),
    ],
)
def test_bad_addresses(url, message):
    with pytest.raises(LedgerError, match=message):
        Ledger(url)


def test_passwords_are_not_shown():
    made = Ledger("postgresql://me:secret@nowhere.invalid/budget", timeout=2)
    assert "secret" not in repr(made)
    with pytest.raises(LedgerError, match="cannot be used now") as caught:
        made.datasets()
    assert "secret" not in str(caught.value)
    assert pickle.loads(pickle.dumps(made))._store.address == "postgresql+psycopg://me:secret@nowhere.invalid/budget"


@pytest.mark.parametrize(
    ("call", "changed", "error", "message"),
    [
        *(("create", {"dataset": name}, ParameterError, "dataset must be a name") for name in
          ("", " x", "a\nb", "x" * 201, 3)),
        ("create", {"dataset": "people"}, LedgerError, "exists already, with epsilon=1.0"),
        *(("create", {"epsilon": value}, ParameterError, "epsilon") for value in (0.0, math.nan, math.inf)),
        *((call, {"delta": value}, ParameterError, "delta") for call in ("create", "reserve")
          for value in (1.0, math.nan)),
        *((call, {"adjacency": "none"}, ParameterError, "adjacency") for call in ("create", "reserve")),
        ("create", {"composition": "best"}, ParameterError, "composition"),
        ("create", {"allow_nonprivate": 1}, ParameterError, "allow_nonprivate"),
        ("reserve", {"dataset": "others"}, LedgerError, "'others' is not in this ledger; there are: 'people'"),
        ("reserve", {"event": 0.1}, ParameterError, "event must be an Event"),
        ("reserve", {"seeded": 1}, ParameterError, "seeded"),
        ("commit", {"charge": "people"}, ParameterError, "charge must be a Charge"),
        ("commit", {"charge": Charge("x", "people", "l", 1, "h")}, LedgerError, "is not in this ledger"),
        ("cancel", {"reason": " "}, ParameterError, "reason"),
        ("__init__", {"who": ""}, ParameterError, "who must be"),
        ("__init__", {"url": 3}, ParameterError, "url must be a string"),
        ("__init__", {"timeout": math.nan}, ParameterError, "timeout"),
    ],
)  # fmt: skip
def test_what_is_refused_leaves_nothing(lite, call, changed, error, message):
    charge = lite.reserve("people", EVENT, **FIT)
    given = {
        "create": {"dataset": "new", **BUDGET}, "reserve": {"dataset": "people", "event": EVENT, **FIT},
        "commit": {"charge": charge, "event": EVENT}, "cancel": {"charge": charge, "reason": "x"},
        "__init__": {"url": lite.url},
    }[call]  # fmt: skip
    before = lite.head()
    with pytest.raises(error, match=message):
        getattr(Ledger(lite.url), call)(**{**given, **changed})
    assert lite.head() == before


def test_a_locked_database_is_waited_for_and_then_named(lite, tmp_path):
    holder = sqlite3.connect(tmp_path / "budget.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(LedgerError, match="cannot be used now: database is locked"):
            Ledger(lite.url, timeout=0.2).reserve("people", EVENT, **FIT)
    finally:
        holder.close()
    lite.reserve("people", EVENT, **FIT)


def test_the_database_refuses_changes(ledger, url):
    ledger.reserve("people", EVENT, **FIT)
    engine = sa.create_engine(url)
    statements = [
        "UPDATE sottovoce_ledger SET entry = 'x' WHERE seq = 2",
        "DELETE FROM sottovoce_ledger WHERE seq = 2",
        "DELETE FROM sottovoce_ledger",
    ]
    if engine.dialect.name == "postgresql":
        statements.append("TRUNCATE sottovoce_ledger")
    else:
        statements.append("INSERT OR REPLACE INTO sottovoce_ledger VALUES (2, 'a', 'b', 'c')")
        statements.append("INSERT INTO sottovoce_ledger VALUES (7, 'a', 'b', 'c')")
    for statement in statements:
        with pytest.raises(sa.exc.DBAPIError, match="privacy ledger"), engine.begin() as connection:
            connection.execute(sa.text(statement))
    engine.dispose()
    assert ledger.verify().ok and len(ledger.history("people")) == 1


# how the triggers go away: whoever owns the database can do it, and the hashes are for them
UNGUARD = {
    "sqlite": [f"DROP TRIGGER sottovoce_ledger_{name}" for name in ("no_update", "no_delete", "in_order")],
    "postgresql": ["ALTER TABLE sottovoce_ledger DISABLE TRIGGER USER"],
}


def tampered(url, *statements):
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in (*UNGUARD[engine.dialect.name], *statements):
            connection.execute(sa.text(statement.replace(":", r"\:")))
    engine.dispose()
    return Ledger(url)


@pytest.fixture
def filled(lite):
    return fill(lite)


def fill(ledger):
    for _ in range(3):
        ledger.commit(ledger.reserve("people", GaussianEvent(20.0), **FIT), GaussianEvent(20.0))
    return ledger


SWAP = [
    "UPDATE sottovoce_ledger SET seq = -1 WHERE seq = 4",
    "UPDATE sottovoce_ledger SET seq = 4 WHERE seq = 6",
    "UPDATE sottovoce_ledger SET seq = 6 WHERE seq = -1",
]


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (["DELETE FROM sottovoce_ledger WHERE seq = 4"], "entry 4 is missing"),
        (SWAP, "entry 4 was changed"),
        ([], "the trigger"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} statement(s)",
)
def test_tampering_shows(filled, statements, problem):
    check_tampered(filled.url, statements, problem)


def test_no_cell_can_be_another_one(filled, tmp_path):
    """Of any entry, the last one too: moved to a number below 0 it was neither read nor missed."""
    rows = tampered(filled.url)._store.read()
    cells = {"seq": [-1, -9, 99], **dict.fromkeys(("previous", "hash", "entry"), ("", "x", b"x", 0))}
    for seq, (place, column) in itertools.product(range(len(rows)), enumerate(cells)):
        for cell in cells[column]:
            with contextlib.closing(sqlite3.connect(tmp_path / "budget.db", isolation_level=None)) as database:
                change = f"UPDATE sottovoce_ledger SET {column} = ? WHERE entry = ?"
                database.execute(change, (cell, rows[seq][3]))
                changed = Ledger(filled.url)
                assert any("trigger" not in problem for problem in changed.verify().problems), (seq, column, cell)
                with pytest.raises(LedgerIntegrityError):
                    changed.reserve("people", GaussianEvent(20.0), **FIT)
                found = cell if column == "entry" else rows[seq][3]
                database.execute(change, (rows[seq][place], found))
    assert filled._store.read() == rows


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("noise", [5e-324, 1e-300, 1e-155, 1e-9])
def test_what_hardly_has_any_noise_is_refused_in_words(lite, composition, noise):
    lite.create("others", epsilon=1.0, delta=1e-6, composition=composition)
    with pytest.raises(BudgetError, match="would bring it to epsilon="):
        lite.reserve("others", GaussianEvent(noise), **FIT)


def test_an_entry_that_was_forged_with_its_own_hash_breaks_the_chain(filled):
    row = filled._store.read(4)[0]
    forged = Entry.from_text(row[3].replace('"tester"', '"forger"'), place="here")
    statement = f"UPDATE sottovoce_ledger SET entry = '{forged.text}', hash = '{forged.hash}' WHERE seq = 4"
    check_tampered(filled.url, [statement], "entry 5 does not follow entry 4")


def test_tampering_shows_in_either_database(ledger, url):
    fill(ledger)
    statement = "UPDATE sottovoce_ledger SET entry = replace(entry, '20.0', '21.0') WHERE seq = 4"
    check_tampered(url, [statement], "entry 4 was changed")


def check_tampered(url, statements, problem):
    broken = tampered(url, *statements)
    found = broken.verify()
    assert not found.ok
    assert any(text.startswith(problem) for text in found.problems), found.problems
    if statements:
        with pytest.raises(LedgerIntegrityError):  # and nobody trains on it any more
            broken.reserve("people", GaussianEvent(20.0), **FIT)


def test_an_old_copy_under_an_open_ledger_is_not_written_to(lite, tmp_path):
    path, old = tmp_path / "budget.db", (tmp_path / "budget.db").read_bytes()
    lite.reserve("people", EVENT, **FIT)
    for others in range(3):  # entries that came after the copy: none, as many as were lost, more
        path.write_bytes(old)
        seen = [Ledger(lite.url).reserve("people", EVENT, **FIT).hash for _ in range(others)]
        with pytest.raises(LedgerIntegrityError, match="no longer has entry 2 as it was read here"):
            lite.reserve("people", EVENT, **FIT)
        assert [record.hash for record in Ledger(lite.url).history("people")] == seen


def test_a_cut_off_end_shows_only_against_a_head_from_outside(filled):
    head = filled.head()
    earlier = filled.history("people")[0]
    assert filled.verify(head).ok and filled.verify(head).anchored
    broken = tampered(filled.url, "DELETE FROM sottovoce_ledger WHERE seq > 5")
    alone = broken.verify()
    assert not alone.anchored and all(text.startswith("the trigger") for text in alone.problems)
    assert any("cut off" in text for text in broken.verify(head).problems)
    assert not any("cut off" in text for text in broken.verify(broken.head()).problems)
    assert earlier.state == "committed"


def rewritten(path, change):
    """Change the entries of an export and give them a new chain of hashes, as a forger would."""
    lines, previous = [], "0" * 64
    for line in path.read_text().splitlines():
        data = json.loads(line)["entry"]
        change(data)
        data["previous"] = previous
        entry = Entry.from_text(canonical_text(data), place="here")
        previous = entry.hash
        lines.append(f'{{"hash":"{previous}","entry":{entry.text}}}\n')
    path.write_text("".join(lines))


def test_exports_are_verified_without_the_database(filled, tmp_path):
    path = tmp_path / "ledger.jsonl"
    assert filled.export(path) == filled.head()
    found = verify_export(path, expected_head=filled.head())
    assert found.ok and found.n_entries == 8 and found.head == filled.head()
    whole = path.read_text()
    for broken, problem in [
        (whole.replace("20.0", "21.0", 1), "entry 2 was changed"),
        (whole.replace("tester", "nobody", 1), "entry 0 was changed"),
        ("".join(whole.splitlines(keepends=True)[1:]), "entry 0 is missing"),
        ("".join(whole.splitlines(keepends=True)[:-1]), "no entry has the expected hash"),
        (whole + "x\n", "line 9 is not an entry"),
        (whole.replace('"who"', '"who":"nobody","who"', 1), "line 1 is not an entry"),
        (whole + '{"entry": {"seq": NaN}, "hash": ""}\n', "line 9 is not an entry"),
    ]:
        path.write_text(broken)
        assert verify_export(path, expected_head=filled.head()).problems[0].startswith(problem), problem
    with pytest.raises(LedgerError, match="cannot read the export"):
        verify_export(tmp_path / "none.jsonl")


def test_a_forged_chain_must_still_keep_the_budget(filled, tmp_path):
    path = tmp_path / "ledger.jsonl"
    filled.export(path)

    def cheaper_past(data):
        if data["kind"] == "create":
            data["body"]["epsilon"] = 0.2

    rewritten(path, cheaper_past)
    found = verify_export(path)
    assert [text.split(" to ")[0] for text in found.problems] == [
        "entry 4 brings dataset 'people'", "entry 6 brings dataset 'people'",
    ]  # fmt: skip

    def twice(data):
        if data["kind"] == "commit":
            data["kind"], data["body"] = "cancel", {**data["body"], "reason": "x"}
            data["body"].pop("event")
            data["body"]["charge"] = "another"

    rewritten(path, twice)
    assert "does not exist" in verify_export(path).problems[0]


@pytest.mark.parametrize("share", [0.5, 0.999, 1.0, 1.001, 2.0])
@pytest.mark.parametrize("composition", ["mixed", "gaussian", "renyi", "basic"])
def test_a_forged_end_must_not_cost_more_than_was_charged(lite, tmp_path, composition, share):
    lite.create("more", **{**BUDGET, "composition": composition})
    charge = lite.reserve("more", EVENT, **FIT)
    lite.commit(charge, EVENT)
    lite.export(path := tmp_path / "ledger.jsonl")

    def dearer(data):
        if data["kind"] == "commit":
            data["body"]["event"] = GaussianEvent(EVENT.noise_multiplier / share).to_dict()

    rewritten(path, dearer)
    problems = verify_export(path).problems
    assert len(problems) == (share > 1.0) and all("cost more than was reserved" in text for text in problems)


def test_entries_that_cannot_be_are_refused(filled, tmp_path):
    path = tmp_path / "ledger.jsonl"

    def check(change, message):
        filled.export(path)
        rewritten(path, change)
        assert message in verify_export(path).problems[0]

    def set_at(seq, **values):
        def change(data):
            if data["seq"] == seq:
                data.update(values)

        return change

    def set_body(seq, **values):
        def change(data):
            if data["seq"] == seq:
                data["body"].update(values)

        return change

    check(set_at(3, kind="refund"), "there is no kind of entry 'refund'")
    check(set_at(3, kind="ledger"), "has no place there")
    check(set_at(0, kind="create"), "has no place there")
    check(set_body(0, version=2), "update sottovoce")
    check(set_body(0, format="x"), "the format is 'x'")
    check(set_body(1, delta=-1.0), "delta must be")
    check(set_body(1, composition="best"), "composition must be")
    check(set_body(1, allow_nonprivate=0), "allow_nonprivate")
    check(set_body(1, unit="persons"), "for rows or for persons, not for 'persons'")
    check(set_body(2, dataset="others"), "'others' does not exist")
    check(set_body(2, event={"kind": "gaussian", "noise_multiplier": -1.0}), "noise_multiplier must be")
    check(set_body(2, event={"kind": "gaussian"}), "incomplete")
    check(set_body(2, adjacency="replace-one"), "gives no guarantee")
    check(set_body(2, seeded="no"), "seeded must be")
    check(set_at(3, kind="create", body=BUDGET), "is no such entry")
    text = Entry(0, "", "commit", "", "", "", {}).text
    for broken, message in [
        (text.replace('"at":""', '"at":3'), "'at' is no str"),
        (text.replace('"seq":0', '"seq":true'), "'seq' is no int"),
        (text.replace(":", ": "), "not in its canonical form"),
        (text.replace("{}", '{"x":NaN}'), "not in its canonical form"),
    ]:
        with pytest.raises(LedgerIntegrityError, match=message):
            Entry.from_text(broken, place="here")


def test_an_unprotected_charge_shows_where_it_is_refused(lite, tmp_path):
    lite.create("public", allow_nonprivate=True, **BUDGET)
    lite.reserve("public", NonPrivateEvent(), **FIT)
    path = tmp_path / "ledger.jsonl"
    lite.export(path)

    def strict(data):
        if data["kind"] == "create":
            data["body"]["allow_nonprivate"] = False

    rewritten(path, strict)
    assert "which dataset 'public' refuses" in verify_export(path).problems[0]


def test_a_process_that_forks_uses_its_own_connection(lite):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            lite.reserve("people", GaussianEvent(20.0), **FIT)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    lite.reserve("people", GaussianEvent(20.0), **FIT)
    assert len(lite.history("people")) == 2 and lite.verify().ok


def charged(ledger, event=EVENT, run=None):
    given = {"delta": 1e-6, "adjacency": Adjacency.ZERO_OUT, "seeded": False, "plan": {"n": 9}}
    return charging(ledger, "people", event, run=run, **given)


def states(ledger):
    return [record.state for record in ledger.history("people")]


def test_an_error_gives_the_charge_back_only_before_the_data_were_looked_at(lite):
    with pytest.raises(KeyError) as caught, charged(lite):
        raise KeyError("no row was read")
    assert not hasattr(caught.value, "__notes__")
    for error in (KeyError("in the middle"), KeyboardInterrupt(), MemoryError()):
        with pytest.raises(type(error)) as caught, charged(lite, GaussianEvent(50.0)) as held:
            held.looking()
            raise error
        (note,) = caught.value.__notes__
        assert "counts as spent" in note and "check them before a fit" in note and "sottovoce ledger cancel" in note
    with charged(lite) as held:
        held.looking()
        held.commit(EVENT)
    assert states(lite) == ["cancelled", *["reserved"] * 3, "committed"]
    assert lite.history("people")[0].reason == "the run ended before it looked at any value of the data"


def test_a_run_that_was_committed_is_never_given_back(lite):
    with pytest.raises(KeyError) as caught, charged(lite) as held:
        held.commit(EVENT)
        raise KeyError("after it")
    assert "counts as spent" in caught.value.__notes__[0] and states(lite) == ["committed"]


def test_a_run_that_is_executed_again_goes_on_with_its_charge(lite):
    """Its process may have ended anywhere, so its charge is never given back; a run of another name has its own."""
    with charged(lite, run="one") as first:
        first.looking()
    for _ in range(2):
        with pytest.raises(KeyError) as caught, charged(lite, run="one") as again:
            assert again.looked and again.charge.charge == first.charge.charge
            raise KeyError("ends again, before it looks")
        assert "counts as spent" in caught.value.__notes__[0]
    with pytest.raises(AccountingError, match="changed after it was charged"), charged(lite, GaussianEvent(9.0), "one"):
        pytest.fail("went on with a plan that was not charged")
    with charged(lite, run="one") as again, pytest.raises(AccountingError, match="changed after it was charged"):
        again.check_plan(GaussianEvent(9.0))
    for _ in range(2):  # what is committed is not committed again
        with charged(lite, run="one") as again:
            again.commit(EVENT)
    with charged(lite, GaussianEvent(9.0), run="two"), charged(lite):
        pass
    assert states(lite) == ["committed", "reserved", "reserved"]
    assert [record.plan for record in lite.history("people")] == [
        {"n": 9, "run": "one"},
        {"n": 9, "run": "two"},
        {"n": 9},
    ]


def test_a_fit_that_is_paid_for_survives_a_ledger_that_is_gone(lite, tmp_path):
    def fit(held):
        held.commit(EVENT)

    with charged(lite) as held:
        (tmp_path / "budget.db").rename(tmp_path / "away.db")
        with pytest.warns(sv.exceptions.PrivacyWarning, match="its end could not be recorded") as told:
            fit(held)
    (tmp_path / "away.db").rename(tmp_path / "budget.db")
    assert [record.state for record in lite.history("people")] == ["reserved"]
    assert told[0].filename == __file__ and told[0].lineno > fit.__code__.co_firstlineno + 1  # where the fit was called


def test_a_charge_that_cannot_be_given_back_is_said_to_be_spent(lite, tmp_path):
    with pytest.raises(KeyError) as caught, charged(lite):
        (tmp_path / "budget.db").rename(tmp_path / "away.db")
        raise KeyError("before it looked")
    (tmp_path / "away.db").rename(tmp_path / "budget.db")
    (note,) = caught.value.__notes__
    assert "counts as spent: it could not be cancelled." in note and states(lite) == ["reserved"]


def test_a_charge_of_a_named_run_is_for_one_result(lite):
    """Copies of a run share its name: the result of one of them leaves, and each copy may send that again."""
    with charged(lite) as held:
        held.close_for("a")
    assert states(lite) == ["reserved"] and not held.closed  # a run without a name has no copies
    for _ in range(2):
        with charged(lite, run="one") as held:
            held.close_for("a")
            assert isinstance(held.charge, Charge) and held.charge.hash == lite.head()
            held.commit(EVENT)
            held.close_for("a")
            with pytest.raises(LedgerError, match="another copy of this run has released one"):
                held.close_for("b")
    assert states(lite) == ["reserved", "committed"] and lite.history("people")[1].note == "a"
    with pytest.raises(LedgerError, match="it was given back"), charged(lite, GaussianEvent(50.0), "two") as held:
        lite.cancel(held.charge.charge, "taken for dead")
        held.close_for("a")
    with pytest.raises(LedgerError, match="it was given back"):
        OpenCharge(lite, held.charge, run="never charged").close_for("a")


def test_without_a_charge_nothing_is_recorded(lite):
    with charging(None, None, EVENT, delta=1e-6, adjacency=Adjacency.ZERO_OUT, seeded=False, plan={}) as held:
        held.check_plan(GaussianEvent(9.0))
    for one in (held, OpenCharge(lite, run="one"), OpenCharge(charge=lite.reserve("people", EVENT, **FIT), run="one")):
        one.commit(EVENT)
        one.close_for("a")
    assert states(lite) == ["reserved"]


@pytest.mark.parametrize(
    ("given", "dataset", "message"),
    [
        (None, "people", "ledger is missing: dataset is given"), ("sqlite:///a.db", None, "dataset is missing: ledger"),
        (3, "people", "ledger must be a Ledger"), ("sqlite:///a.db", 3, "dataset must be the name"),
    ],
)  # fmt: skip
def test_a_charge_needs_a_ledger_and_a_data_set(lite, given, dataset, message):
    with pytest.raises(ParameterError, match=message):
        is_charged(given, dataset)
    assert is_charged(lite, "people") and is_charged(lite.url, "people") and not is_charged(None, None)
    with charged(lite.url) as held:
        held.commit(EVENT)
    assert states(lite) == ["committed"]


def test_a_plan_that_changed_after_the_charge_stops_before_the_noise(lite):
    with pytest.raises(AccountingError, match="changed after it was charged"), charged(lite) as held:
        held.check_plan(GaussianEvent(9.0))
    assert lite.spent("people")[0] == 0.0


def test_the_result_of_a_run_whose_charge_was_cancelled_meanwhile_is_not_handed_out(lite):
    with pytest.raises(AccountingError, match="was cancelled"), charged(lite) as held:
        held.looking()
        lite.cancel(held.charge.charge, "taken for dead")
        held.commit(EVENT)
    assert states(lite) == ["cancelled"]


def test_no_time_is_finer_than_a_day_and_the_end_of_a_charge_has_that_of_its_start(lite, monkeypatch, tmp_path):
    clock = Clock(monkeypatch, "2026-11-22T12:34:56.789012")
    committed, cancelled = (lite.reserve("people", EVENT, **FIT) for _ in range(2))
    clock.time += timedelta(days=3)
    lite.commit(committed, EVENT)
    lite.cancel(cancelled, "nothing was read")
    lite.reserve("people", EVENT, **FIT)
    assert [(record.at, record.ended_at) for record in lite.history("people")] == [
        *[("2026-11-22", "2026-11-22")] * 2, ("2026-11-25", None),
    ]  # fmt: skip
    lite.export(tmp_path / "all.jsonl")
    entries = [json.loads(line)["entry"] for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert all(len(entry["at"]) == len("2026-11-22") for entry in entries)
    assert "12:34" not in json.dumps(entries) and "789012" not in json.dumps(entries)


def test_entries_of_earlier_versions_with_finer_times_are_still_read(lite, monkeypatch, tmp_path):
    before = "2026-10-01T08:30:00.123456+00:00"
    with monkeypatch.context() as patched:
        patched.setattr(Book, "day_of", lambda self, charge: before)
        old, open_ = (lite.reserve("people", EVENT, **FIT) for _ in range(2))
        lite.commit(old, EVENT)
    lite.commit(open_, EVENT)
    assert [(record.at, record.ended_at) for record in lite.history("people")] == [
        (before, before), (before, "2026-10-01"),
    ]  # fmt: skip
    head = lite.export(tmp_path / "all.jsonl")
    assert lite.verify(head).ok and verify_export(tmp_path / "all.jsonl", expected_head=head).ok


def test_without_sqlalchemy_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "sqlalchemy", None)
    with pytest.raises(LedgerError, match=r'pip install "sottovoce\[ledger\]"'):
        Ledger(f"sqlite:///{tmp_path / 'budget.db'}")


@pytest.mark.parametrize(
    ("unit", "hint"),
    [("persons", " Did you mean 'person'"), ("Person", " Did you mean 'person'"), ("rows", " Did you mean 'row'"),
     ("one patient", ""), (" person", " Did you mean 'person'"), ("", ""), (None, ""), (1, "")],
)  # fmt: skip
def test_a_unit_is_one_of_a_closed_list(lite, unit, hint):
    """Words of somebody's own made a budget for rows, whatever they said: nothing is stored of such a budget."""
    before = lite.head()
    with pytest.raises(ParameterError, match=rf"unit must be one of 'row', 'person'; got .*{hint}.*max_rows_per_group"):
        lite.create("visits", **BUDGET, unit=unit)
    assert lite.head() == before and "visits" not in lite.datasets()


def test_an_interrupt_at_any_line_leaves_what_a_fresh_reader_sees(tmp_path):
    """The sums and records in memory are those on disk, wherever Ctrl-C came, and nobody has to wait for a lock.

    An interpreter keeps the last exception, and with it what was open where it came.
    """
    within, lines = {inspect.getfile(of) for of in (Book, Tally, Store, contextlib.contextmanager)}, 0

    def interrupt_at(number):
        def trace(frame, event, _):
            nonlocal lines
            if frame.f_code.co_filename not in within:
                return None
            lines += event == "line"
            if lines == number:
                raise KeyboardInterrupt
            return trace

        return trace

    for number in itertools.count(1, 23):
        ledger = Ledger(f"sqlite:///{tmp_path / f'{number}.db'}", who="tester", timeout=0.5)
        lines, before, kept = 0, sys.gettrace(), None
        ledger.create("people", epsilon=10.0, delta=1e-3)
        ledger.reserve("people", EVENT, **FIT)
        sys.settrace(interrupt_at(number))
        try:
            ledger.commit(ledger.reserve("people", EVENT, **FIT), EVENT)
        except KeyboardInterrupt as error:
            kept = error
        finally:
            sys.settrace(before)
        assert kept is None or "says whether it counts" in kept.__notes__[0]
        ledger.reserve("people", EVENT, **FIT)
        fresh = Ledger(ledger.url)
        assert ledger.history("people") == fresh.history("people")
        assert ledger.spent("people") == fresh.spent("people")
        if kept is None and lines < number:
            break
    assert number > 100
