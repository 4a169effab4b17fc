"""Parties are aligned by messages: the same people and the same order as in one process; no identifier is shown."""

import builtins
import hashlib
import logging
import traceback
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sottovoce.exceptions import DataError, ParameterError, PartyError
from sottovoce.privacy.events import NothingReleased
from sottovoce.vertical import InProcessParties, Party, align
from sottovoce.vertical.alignment import AskedParty, align_over, common_rows
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.mechanisms import PRIVATE
from sottovoce.vertical.party.journal import Journal
from sottovoce.vertical.requests.alignment import AlignTo, announce
from sottovoce.vertical.requests.general import Describe
from sottovoce.vertical.requests.secure import Invite, Poll
from sottovoce.vertical.secure.agreed_plan import Block
from sottovoce.vertical.secure.joint_plan import JointPlan
from sottovoce.vertical.wire import Done, Payload
from support.noisy_rounds import ROUNDS, RoundsStep
from support.party import Line

pytest.importorskip("private_set_intersection", reason="openmined-psi (extra [vertical]) is not installed")

BANK = ["f", "b", "a", None, "c", "e", "e", "d"]
CLINIC = ["x", "d", "c", "b", "", "f"]
SHOP = ["b", "y", "f", "d", "y"]


def party(name, ids, *, sparse=False, **options):
    """A party whose only column is the row's number."""
    table = np.arange(len(ids), dtype=float)[:, None]
    return Party(sp.csr_array(table) if sparse else table, ids, name=name, **options)


def parties(**options):
    return [
        party("bank", BANK, y=np.arange(len(BANK)), **options),
        party("clinic", CLINIC, sparse=True),
        party("shop", SHOP, budget=(1.0, 1e-6)),
    ]


def rows(party):
    table = party._table
    return (table if isinstance(table, np.ndarray) else table.toarray())[:, 0].astype(int).tolist()


class Elsewhere(Parties):
    """Parties of which only the first lives here."""

    def __init__(self, given):
        super().__init__([each.name for each in given])
        self._all = {each.name: each for each in given}
        self.here = {given[0].name: given[0]}

    def _send(self, requests):
        return {name: self._all[name].handle(raw) for name, raw in requests.items()}


# --- the same as in one process ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("carrier", [Elsewhere, InProcessParties])
def test_the_same_rows_in_the_same_order_as_in_one_process(carrier):
    played = align(parties(), duplicates="drop")
    given = parties()
    report = align_over(carrier(given))
    assert [rows(each) for each in given] == [rows(each) for each in played.parties.values()]
    assert [each.ids.tolist() for each in given] == [["b", "d", "f"]] * 3
    assert given[0].y.tolist() == rows(given[0]) == [1, 7, 0]
    assert (report.method, report.n_common) == ("psi", 3)
    assert report.parties == played.report.parties[:1]  # the rows of the others are theirs
    assert report.asked == (AskedParty("clinic", 5, 4), AskedParty("shop", 3, 3))
    assert {each.alignment for each in given} == {hashlib.sha256(announce(["b", "d", "f"])).hexdigest()}
    assert "3 people in common (method 'psi')" in report.summary()
    assert "clinic: 5 identifiers, 4 people in common after it" in report.summary()


def test_aligned_anew_from_the_whole_table():
    given = parties()
    align_over(Elsewhere(given))
    narrow = [*given[:2], party("shop", ["c", "f", "x"])]
    assert align_over(Elsewhere(narrow)).n_common == 2
    assert [each.ids.tolist() for each in narrow] == [["c", "f"]] * 3


def test_who_is_the_client():
    given = parties()
    report = align_over(InProcessParties(given), client="shop")
    assert [each.name for each in report.parties] == ["shop"]
    assert [each.name for each in report.asked] == ["bank", "clinic"]
    with pytest.raises(ParameterError, match=r"client must be a party that lives here, out of 'bank'; got 'shop'"):
        align_over(Elsewhere(given), client="shop")
    with pytest.raises(ParameterError, match="party 'bank' has no identifiers"):
        align_over(Elsewhere([Party(np.ones((2, 1)), name="bank"), given[1]]))
    with pytest.raises(ParameterError, match="at least two parties; there is 'bank' alone"):
        align_over(Elsewhere(given[:1]))


# --- few people -------------------------------------------------------------------------------------------------------


def test_nobody_in_common_is_said_with_what_the_client_knows():
    given = [party("bank", ["a", "b"]), party("clinic", ["b"]), party("shop", ["a"]), party("last", ["a"])]
    with pytest.raises(
        DataError, match=r"nobody is in common \(left: 1 after 'clinic' with 1 .* 0 after 'shop'"
    ) as caught:
        align_over(Elsewhere(given))
    assert "last" not in str(caught.value)
    assert [each.alignment for each in given] == [None] * 4


def test_a_party_refuses_an_alignment_to_few_people():
    given = [party("bank", BANK), party("clinic", CLINIC, least_people=5)]
    with pytest.raises(PartyError, match=r"'clinic' refused AlignTo: it is aligned to at least 5 people; these are 4"):
        align_over(Elsewhere(given))
    assert [each.alignment for each in given] == [None, None]
    home = [party("bank", BANK, least_people=5), party("clinic", CLINIC)]
    with pytest.raises(DataError, match=r"4 people are in common, and party 'bank' is aligned to at least 5"):
        align_over(Elsewhere(home))
    assert home[1].alignment is None  # nobody was announced


# --- once more, and by the owner --------------------------------------------------------------------------------------


def test_people_of_before_are_announced_again_without_an_intersection():
    given = [party("bank", BANK), party("clinic", CLINIC)]
    align_over(Elsewhere(given))
    people = given[0].ids.tolist()
    again = [party("bank", BANK), party("clinic", ["n", *CLINIC[::-1]])]  # in which rows moved and one person is new
    report = align_over(Elsewhere(again), people=people)
    assert (report.method, report.n_common, report.asked) == ("kept", 4, ())
    assert report.bytes_sent < 400
    assert {each.alignment for each in again} == {given[1].alignment}
    assert again[1].ids.tolist() == given[1].ids.tolist()
    with pytest.raises(PartyError, match="refused AlignTo: the announcement holds people whom it lacks"):
        align_over(Elsewhere([given[0], party("clinic", CLINIC[:-1])]), people=people)


def test_the_owner_takes_all_rows_again():
    bank = party("bank", BANK, y=np.arange(8))
    align_over(Elsewhere([bank, party("clinic", CLINIC)]))
    bank.align(None)
    assert bank.alignment is None
    assert rows(bank) == bank.y.tolist() == list(range(8))
    assert bank.ids.tolist() == BANK


def test_the_owner_aligns_in_the_order_of_the_texts():
    clinic = party("clinic", CLINIC)
    clinic.align(["f", "b"])
    assert clinic.ids.tolist() == ["b", "f"]
    with pytest.raises(DataError, match="has no row of some of these people"):
        clinic.align(["f", "z"])
    with pytest.raises(DataError, match="at least 1 people; these are 0"):
        clinic.align([])
    with pytest.raises(ParameterError, match="has no identifiers"):
        Party(np.ones((3, 1)), name="plain").align(["b"])


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_trainings_on_other_rows_end_and_the_same_people_change_nothing():
    clinic = party("clinic", CLINIC, data_norm=1.0)
    question = Line(clinic)
    assert question.ask(Describe()).n_rows == 6

    def begin():
        line = Line(clinic)
        plan = JointPlan(
            n_samples=clinic.n_rows, blocks=(Block("clinic", clinic.n_features, 1.0), Block("bank", 1, 1.0)),
            label_holder="bank", loss="logistic", alpha=0.1, epsilon=1.0, delta=1e-6, engine="in-process",
        )  # fmt: skip
        assert isinstance(line.ask(Invite(plan.text())), Payload)
        return line

    training = begin()
    assert isinstance(Line(clinic).ask(AlignTo(announce(["b", "c"]))), Done)
    assert "came without its start" in training.ask(Poll()).reason
    assert question.ask(Describe()).n_rows == 2
    training = begin()
    assert isinstance(Line(clinic).ask(AlignTo(announce(["b", "c"]))), Done)
    assert "the joint training is invited" in training.ask(Poll()).reason


def test_a_restarted_party_answers_as_before_for_the_people_it_was_aligned_to(tmp_path):
    """And for nobody else, also where other people have the very same rows: that must not be told."""

    @contextmanager
    def clinic():
        journal = Journal(tmp_path / "journal")
        started = Party(
            np.ones((4, 1)), ["a", "b", "c", "d"], name="clinic", data_norm=1.0, budget=(1.0, 1e-6),
            journal=journal, answers=PRIVATE | {"noisy-rounds", "alignment"}, protocols=[ROUNDS],
        )  # fmt: skip
        yield started
        journal.close()

    told, step = [], RoundsStep(np.zeros(2), 0.05)
    for people, charged in (("ab", True), ("ab", False), ("ac", True)):
        with clinic() as party:
            assert isinstance(Line(party).ask(AlignTo(announce(list(people)))), Done)  # as its coordinator does
            told.append(Line(party).ask(step).numbers.tolist())
            assert (party.spent != NothingReleased()) == charged
    assert told[0] == told[1] != told[2]


@pytest.mark.parametrize("form", [str, str.encode, lambda text: int(text[6:])], ids=["text", "bytes", "number"])
def test_no_identifier_is_shown_anywhere(form, caplog, capsys):
    """Sentinels in text, bytes and numbers: not in reprs, reports, refusals, errors or logs."""
    caplog.set_level(logging.DEBUG)
    ids = [form(f"geheim{k}") for k in range(90017, 90037)]
    given = [party("bank", ids), party("clinic", ids[2:])]
    report = align_over(Elsewhere(given))
    told = [
        Line(given[1]).ask(AlignTo(announce(["geheim90019", "geheim-falsch"]))).reason,
        report.summary(),
        repr(report),
    ]
    told += [repr(each) + repr(each.identifiers) for each in given]
    wrong = [
        ([*ids, ids[0]], "share 1 identifier"), (ids[:2], "nobody"), ([*ids, True], "bool"), ([*ids, [ids[0]]], "list"),
        ([*ids, 90017.5], "float"), (np.array([90017.5]), "float"), ([*ids, "geheim\ud800"], "Unicode"),
        (pd.Series([*ids, True], dtype="category"), "bool"), ({ids[0]}, "type set"), (ids[0], "type"),
    ]  # fmt: skip
    for identifiers, fault in wrong:
        with pytest.raises((DataError, ParameterError), match=fault) as caught:
            common_rows({"bank": identifiers, "shop": ids[2:]})
        # what a log would print: the chain of causes, without the lines of source
        lines = traceback.TracebackException.from_exception(caught.value).format()
        told += [str(caught.value), "".join(line for line in lines if "File" not in line)]
    text = "".join([*told, caplog.text, *capsys.readouterr()])
    assert "geheim" not in text and not any(str(k) in text for k in range(90017, 90037))


# --- in one process --------------------------------------------------------------------------------------------------


def test_nobody_in_common():
    told = "nobody is in common.*usable.*'a' 2 of 2 rows.*'b' 0 of 1 rows.*leading zeros, case and spaces"
    with pytest.raises(DataError, match=told):
        common_rows({"a": ["1", "2"], "b": [None]})


@pytest.mark.parametrize(
    ("identifiers", "options", "fault"),
    [
        ({"a": ["1"]}, {}, "an alignment needs at least two parties with identifiers; got 1"),
        ({}, {}, "at least two parties with identifiers; got 0"),
        ({"a": ["1"], "b": "1"}, {}, r"ids of party 'b' must be a list or an array"),
        ({"a": ["1"], "b": None}, {}, r"ids of party 'b' must be a list or an array .* NoneType"),
        ({"a": ["1"], "b": ["1"]}, {"duplicates": "first"}, "duplicates must be one of 'error', 'drop'; got 'first'"),
    ],
)
def test_wrong_arguments(identifiers, options, fault):
    with pytest.raises(ParameterError, match=fault):
        common_rows(identifiers, **options)


def test_a_missing_package_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("private_set_intersection"):
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        ParameterError, match=r"private set intersection needs the package openmined-psi: install sottovoce\[vertical\]"
    ):
        align_over(InProcessParties([party(name, ["1"]) for name in "ab"]))
