"""A party in a joint choice of columns against a coordinator that sends anything: what is opened was charged."""

import dataclasses
import json
import random

import numpy as np
import pytest

from sottovoce.privacy.events import NothingReleased, compose
from sottovoce.vertical import Helper, Party, VerticalLasso
from sottovoce.vertical.protocols.general.messages import Describe
from sottovoce.vertical.protocols.secure import messages as handlers
from sottovoce.vertical.protocols.secure.column_plan import Columns
from sottovoce.vertical.protocols.secure.messages import Connect, Invite, Join, KeepJoint, Opened, Poll
from support.joint_table import NOTHING, Table, block, refused, share_nothing_uncovered
from support.party import Line

N = 40
X = np.random.default_rng(0).uniform(-1.0, 1.0, (N, 5))
Y = X.sum(axis=1) / 5.0


def make(**more):
    return [
        Party(X[:, :3], name="bank", data_bound=1.0, **more),
        Party(X[:, 3:], name="clinic", data_bound=1.0, **more),
        Helper("notary"),
    ]


def plan_of(**changed):
    model = VerticalLasso(
        aggregation="secure", label_bounds=(-1, 1), radius=1.0, epsilon=2.0, delta=1e-5, label_holder="bank", n_steps=3
    )
    return dataclasses.replace(model.plan(make()).joint, **changed)


PLAN = plan_of()
EVENT = PLAN.event


def table_of(parties, plan=PLAN):
    return Table(parties, plan, Y)


@pytest.mark.parametrize(
    ("plan", "word"),
    [
        (plan_of(n_samples=N + 1), "the plan says"),
        (block(PLAN, 1, data_bound=0.5), "the plan says"),
        (block(PLAN, 1, n_features=3), "the plan says"),
        (block(PLAN, 1, name="shop"), "this is 'clinic'"),
        (plan_of(engine="spu"), "it does not compute with the engine 'spu'"),
        (plan_of(blocks=(PLAN.blocks[0], Columns("notary", 2, 1.0)), helpers=("clinic",)), "for a helper"),
    ],
)
def test_a_plan_that_is_not_true_of_the_party_is_refused(plan, word):
    refused(Line(make()[1]).ask(Invite(plan.text())), word)


def test_a_party_without_a_bound_on_entries_is_never_asked_in():
    party = Party(X[:, 3:], name="clinic", data_norm=2.0)
    refused(Line(party).ask(Invite(PLAN.text())), "it declared no data_bound")


@pytest.mark.parametrize(
    "text", [PLAN.text() + " ", PLAN.text().replace("2.0", "2.00"), PLAN.text().replace('"in-process"', '"shamir"')]
)
def test_what_is_no_plan_is_refused(text):
    refused(Line(make()[1]).ask(Invite(text)))


def test_the_start_is_charged_once_and_all_choices_follow_from_it():
    table = table_of(make(budget=(9.0, 1e-3))).join()
    line = table.lines[1]
    assert table.parties[1].spent == EVENT
    for message in (Join(NOTHING), Connect(table.cards), Invite(PLAN.text())):
        refused(line.ask(message))
    again = table.all(Poll())
    assert [each.values.tolist() for each in again] == [table.opened[0].values.tolist()] * 3
    assert [each.n_steps for each in again] == [len(each.values) for each in again] == [PLAN.n_choices] * 3
    assert line.ask(KeepJoint("m")).ready
    assert line.ask(Poll()).values.tolist() == table.opened[0].values.tolist()
    assert table.parties[1].spent == EVENT
    table.end()


@pytest.mark.parametrize("size", [np.nan, np.inf, -np.inf, 1e308, 1e18])
def test_margins_stay_within_what_the_plan_says(size):
    rows = PLAN.rows("clinic", X[:, 3:])
    for point in ([size, -size], [size, size], [size, 0.0]):
        margins = PLAN.margins("clinic", rows, np.array(point))
        assert margins.dtype == np.int64
        assert np.abs(margins).max() <= 2**40


def test_what_the_budget_does_not_cover_shares_nothing():
    share_nothing_uncovered(make, table_of, PLAN)


def test_labels_are_for_the_label_holder_alone_and_one_a_row():
    table = table_of(make(budget=(9.0, 1e-3))).connect()
    refused(table.lines[1].ask(Join(Y)), "for the label holder alone")
    refused(table.lines[0].ask(Join(Y[:3])), "3 numbers for 40 rows")
    assert [party.spent for party in table.parties[:2]] == [NothingReleased()] * 2
    table.end()


def test_a_card_of_another_plan_is_refused():
    one = table_of(make())
    other = table_of(make(), dataclasses.replace(PLAN, radius=2.0))
    cards = [each.card for each in one.all(Invite(one.plan.text()))]
    mixed = [each.card for each in other.all(Invite(other.plan.text()))]
    refused(one.lines[1].ask(Connect(json.dumps([*cards[:2], mixed[2]]))))
    one.end()
    other.end()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_comes_in_whatever_order_what_is_opened_was_charged(seed, monkeypatch):
    monkeypatch.setattr(handlers, "_WAIT", 0.02)
    rng = random.Random(seed)
    table = table_of(make(budget=(30.0, 1e-2)))
    cards = table.all(Invite(PLAN.text()))
    held = json.dumps([each.card for each in cards])
    kinds = [
        lambda: Invite(PLAN.text()), lambda: Connect(held), Poll, lambda: Join(NOTHING), lambda: Join(Y), Describe,
        lambda: KeepJoint("m"),
    ]  # fmt: skip
    opened = 0
    try:
        for _ in range(60):
            reply = rng.choice(table.lines).ask(rng.choice(kinds)())
            opened += isinstance(reply, Opened) and bool(reply.n_steps)
        for party in table.parties[:2]:
            assert party.spent in (NothingReleased(), EVENT, compose(EVENT, EVENT))
            assert not opened or party.spent != NothingReleased()
    finally:
        table.end()
