"""A party in a joint training against a coordinator that sends anything, in any order: at most what was charged."""

import dataclasses
import hashlib
import json
import random
import threading

import numpy as np
import pytest

from sottovoce.privacy.events import NothingReleased, compose
from sottovoce.vertical import ComputeSite, Helper, Party, VerticalLogisticRegression
from sottovoce.vertical.protocols.general.messages import Describe, Prepare
from sottovoce.vertical.protocols.secure import messages as handlers
from sottovoce.vertical.protocols.secure.messages import Card, Connect, Invite, Join, KeepJoint, Opened, Poll
from sottovoce.vertical.wire import Done
from support.joint_table import NOTHING, Table, block, refused, share_nothing_uncovered
from support.party import Line, worker_of

N = 40
X = np.random.default_rng(0).uniform(-1.0, 1.0, (N, 5))
Y = np.where(X.sum(axis=1) > 0.0, 1.0, -1.0)
PREPARE = Prepare(1.0, 0)


def make(**more):
    return [
        Party(X[:, :3], name="bank", data_norm=2.0, **more),
        Party(X[:, 3:], name="clinic", data_norm=2.0, **more),
        Helper("notary"),
    ]


def plan_of(**changed):
    model = VerticalLogisticRegression(
        mechanism="secure", classes=[-1, 1], epsilon=2.0, delta=1e-5, label_holder="bank", engine="in-process",
        mechanism_options={"n_passes": 2},
    )  # fmt: skip
    return dataclasses.replace(model.plan(make()).joint, **changed)


PLAN = plan_of()
EVENT = PLAN.event


def table_of(parties, plan=PLAN):
    return Table(parties, plan, Y)


@pytest.fixture
def parties():
    return make()


# --- the plan ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", "[" * 30_000, PLAN.text() + " ", PLAN.text().replace("2.0", "2.00"), '{"a":NaN}']
)
def test_what_is_no_plan_is_refused(parties, text):
    refused(Line(parties[1]).ask(Invite(text)))


@pytest.mark.parametrize(
    ("plan", "word"),
    [
        (plan_of(n_samples=N + 1), "the plan says"),
        (block(PLAN, 1, data_norm=1.0), "the plan says"),
        (block(PLAN, 1, n_features=3), "the plan says"),
        (block(PLAN, 1, name="shop"), "this is 'clinic'"),
        (plan_of(engine="spu"), "it does not compute with the engine 'spu'"),
        (dataclasses.replace(PLAN, blocks=(*PLAN.blocks[:1], dataclasses.replace(PLAN.blocks[1], name="notary")),
                             helpers=("clinic",)), "takes a party with a table for a helper"),
    ],
)  # fmt: skip
def test_a_plan_that_is_not_true_of_the_party_is_refused(parties, plan, word):
    refused(Line(parties[1]).ask(Invite(plan.text())), word)


def test_a_helper_is_no_party_with_a_table_and_the_other_way_round(parties):
    swapped = dataclasses.replace(
        PLAN, blocks=(PLAN.blocks[0], dataclasses.replace(PLAN.blocks[1], name="notary")), helpers=("clinic",)
    )
    refused(Line(parties[2]).ask(Invite(swapped.text())), "for a helper")


def test_a_party_with_a_site_does_not_compute_in_the_coordinators_process():
    party = Party(X[:, 3:], name="clinic", data_norm=2.0, computing=ComputeSite(partners={"bank"}))
    refused(Line(party).ask(Invite(PLAN.text())), "does not compute with the engine 'in-process'")


def test_a_party_whose_owner_said_no_is_asked_for_its_engines_alone():
    party = Party(X[:, 3:], name="clinic", data_norm=2.0, answers=set())
    assert json.loads(Line(party).ask(Describe(1)).engines) == {}
    refused(Line(party).ask(Invite(PLAN.text())), "does not answer Invite")


# --- the order --------------------------------------------------------------------------------------------------------

LATER = [Connect("[]"), Poll(), Join(NOTHING), KeepJoint("m")]


@pytest.mark.parametrize("message", LATER, ids=lambda message: type(message).__name__)
def test_nothing_comes_before_the_invitation(parties, message):
    refused(Line(parties[1]).ask(message), "came without its start")


@pytest.mark.parametrize("message", LATER[1:], ids=lambda message: type(message).__name__)
def test_nothing_comes_before_the_meeting(message):
    table = table_of(make(budget=(9.0, 1e-3))).invite()
    refused(table.lines[1].ask(message), "out of its turn")
    assert table.parties[1].spent == NothingReleased()
    table.end()


def test_the_start_is_charged_once_and_comes_once():
    table = table_of(make(budget=(9.0, 1e-3))).join()
    assert table.parties[1].spent == EVENT
    for message in (Join(NOTHING), Connect(table.cards), Invite(PLAN.text())):
        refused(table.lines[1].ask(message))
    assert table.parties[1].spent == EVENT
    assert isinstance(worker_of(table.parties[1]), handlers.JointWorker)
    table.end()


def test_a_party_goes_through_the_steps_of_its_plan_and_nobody_orders_one():
    table = table_of(make(budget=(9.0, 1e-3))).join()
    line, opened = table.lines[1], table.opened
    ends = np.cumsum([PLAN.n_opened(step) for step in range(PLAN.n_steps + 1)])
    assert [(each.n_steps, len(each.values)) for each in opened] == [(PLAN.n_steps + 1, ends[-1])] * 3
    assert np.array_equal(opened[0].values, opened[1].values)
    refused(table.lines[2].ask(KeepJoint("m")), "a helper has no part")
    refused(line.ask(KeepJoint("m", bytes(32))), "opened other numbers than it is told of")
    assert line.ask(KeepJoint("m", hashlib.sha256(opened[0].values.tobytes()).digest())).ready
    fitting = PLAN.fitting()
    for values in np.split(opened[0].values, ends[:-1]):
        fitting.take(values)
    assert np.array_equal(table.parties[1].part("m").coef, fitting.weights["clinic"][0])
    for message in (KeepJoint("m"), Join(NOTHING)):
        refused(line.ask(message), "the joint training is kept")
    assert table.parties[1].spent == EVENT
    table.end()


def test_nothing_is_told_and_nothing_kept_before_the_end():
    table = table_of(make(budget=(9.0, 1e-3))).connect()
    line = table.lines[1]
    assert isinstance(line.ask(Join(NOTHING)), Done)  # its partners have not begun
    for message in (KeepJoint("m"), Poll()):
        told = line.ask(message)
        assert (told.n_steps, told.ready, len(told.values)) == (0, 0, 0)
    assert not table.parties[1].keeps("m")
    table.end()


def test_asking_for_the_opened_sums_again_gives_the_same_and_draws_nothing():
    table = table_of(make(budget=(9.0, 1e-3))).join()
    again = table.all(Poll())
    assert all(np.array_equal(each.values, table.opened[0].values) for each in again)
    assert table.parties[1].spent == EVENT
    table.end()


def test_labels_are_for_the_label_holder_alone_and_one_a_row():
    table = table_of(make(budget=(9.0, 1e-3))).connect()
    refused(table.lines[1].ask(Join(Y)), "for the label holder alone")
    refused(table.lines[0].ask(Join(Y[:3])), "3 numbers for 40 rows")
    refused(table.lines[0].ask(Join(NOTHING)), "0 numbers for 40 rows")
    assert [party.spent for party in table.parties[:2]] == [NothingReleased()] * 2
    table.end()


def test_what_the_budget_does_not_cover_shares_nothing():
    share_nothing_uncovered(make, table_of, PLAN)


def test_every_training_is_charged_for_itself():
    given = make(budget=(9.0, 1e-3))
    for _ in range(2):
        table = table_of(given).join()
        table.end()
    assert given[1].spent == compose(EVENT, EVENT)


# --- partners ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cards", ["", "{}", "[1]", "[]", '["{}", "{}", "{}"]', "[" * 30_000])
def test_cards_that_are_none_end_the_invitation(cards):
    table = table_of(make(budget=(9.0, 1e-3))).invite()
    refused(table.lines[1].ask(Connect(cards)))
    refused(table.lines[1].ask(Join(NOTHING)))
    assert table.parties[1].spent == NothingReleased()
    table.end()


def test_cards_of_another_plan_or_session_are_refused():
    one = table_of(make()).invite()
    other = table_of(make(), dataclasses.replace(PLAN, epsilon=1.0)).invite()
    mixed = json.dumps([*json.loads(one.cards)[:2], json.loads(other.cards)[2]])
    refused(one.lines[1].ask(Connect(mixed)))
    one.end()
    other.end()


def test_partners_in_another_order_are_refused():
    table = table_of(make()).invite()
    refused(table.lines[1].ask(Connect(json.dumps(json.loads(table.cards)[::-1]))))
    table.end()


# --- what is held -----------------------------------------------------------------------------------------------------


def test_so_many_joint_trainings_at_a_time(parties):
    tables = [table_of(parties).invite() for _ in range(handlers.MOST_JOINT)]
    refused(Line(parties[1]).ask(Invite(PLAN.text())), "in at most 2 at a time")
    tables[0].end()
    tables.append(table_of(parties).invite())
    for table in tables[1:]:
        table.end()


def test_a_session_that_turns_to_something_else_ends_its_joint_training(parties):
    table = table_of(parties).invite()
    worker = worker_of(parties[1])
    assert isinstance(table.lines[1].ask(PREPARE), Done)
    assert not worker.is_open
    refused(table.lines[1].ask(Join(NOTHING)), "came without its start")
    table.end()


def test_an_invitation_that_nobody_follows_ends_by_itself(monkeypatch, parties):
    monkeypatch.setattr(handlers, "_PATIENCE", 0.05)
    line = Line(parties[1])
    line.ask(Invite(PLAN.text()))
    worker = worker_of(parties[1])
    worker._thread.join(5.0)
    assert not worker.is_open
    refused(line.ask(Connect("[]")), "nobody asked for anything for 0.05 seconds")


# --- anything at all --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_whatever_comes_in_whatever_order_what_is_opened_was_charged(seed):
    rng = random.Random(seed)
    given = make(budget=(30.0, 1e-2))
    tables = [table_of(given), table_of(given)]
    cards = {}

    def message(table):
        held = cards.get(id(table), "[]")
        return rng.choice([
            Invite(PLAN.text()), Connect(held), Poll(), Join(NOTHING), Join(Y), KeepJoint("m"), Describe(),
        ])  # fmt: skip

    handlers_wait, handlers._WAIT = handlers._WAIT, 0.02
    try:
        opened = set()
        for turn in range(60):
            table = rng.choice(tables)
            if turn < 4:
                replies = table.all(Invite(PLAN.text()))
                if all(isinstance(each, Card) for each in replies):
                    cards[id(table)] = json.dumps([each.card for each in replies])
            line = rng.choice(table.lines)
            sent = message(table)
            reply = line.ask(sent)
            if isinstance(reply, Opened) and (reply.n_steps or len(reply.values)):
                opened.add(id(table))
        events = [party.spent for party in given[:2]]
        for spent in events:
            assert spent in (NothingReleased(), EVENT, compose(EVENT, EVENT))
        if opened:
            assert all(spent != NothingReleased() for spent in events)
    finally:
        handlers._WAIT = handlers_wait
        for table in tables:
            table.end()


def test_many_starts_at_once_are_one():
    table = table_of(make(budget=(30.0, 1e-2))).connect()
    line = table.lines[1]
    frames = [line.frame(Join(NOTHING)) for _ in range(8)]
    answers = []
    threads = [threading.Thread(target=lambda raw=raw: answers.append(line.party.handle(raw))) for raw in frames]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert table.parties[1].spent == EVENT
    table.end()


@pytest.mark.parametrize("engine", ["in-process", "shamir"])
@pytest.mark.parametrize("size", [1e18, 1e308])
def test_points_of_any_size_keep_margins_within_what_the_plan_says(engine, size):
    """A product that is not a number would be any whole number at all."""
    plan = handlers.plan_from_text(dataclasses.replace(PLAN, engine=engine).text())
    rows = plan.rows("clinic", X[:, 3:])
    usual = np.abs(plan.margins("clinic", rows, np.array([1e12, 1e12]))).max()
    for point in ([size, -size], [size, size], [-size, size]):
        margins = plan.margins("clinic", rows, np.array(point))
        assert margins.dtype == np.int64
        assert np.abs(margins).max() <= usual
