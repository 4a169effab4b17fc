"""A party in a joint computation against a coordinator that sends anything, in any order: at most what was charged.

Both mechanisms that compute jointly are asked the same: sums of rows, and choices of columns.
"""

import dataclasses
import hashlib
import json
import random
from functools import cached_property, partial

import numpy as np
import pytest

from sottovoce.privacy.events import NothingReleased, compose
from sottovoce.vertical import ComputeSite, Helper, Party, VerticalLasso, VerticalLogisticRegression
from sottovoce.vertical.requests import secure as handlers
from sottovoce.vertical.requests.general import Close, Describe
from sottovoce.vertical.requests.secure import Connect, Invite, Join, Poll
from sottovoce.vertical.wire import Done, Payload, Refused, new_session
from support.party import Line, worker_of

N = 40
X = np.random.default_rng(0).uniform(-1.0, 1.0, (N, 5))
NOTHING = np.zeros(0)


class Kind:
    """A mechanism: its plan, and the bound that a party declares for it."""

    def __init__(self, name, model, bound, size, labels):
        self.name, self.model, self.bound, self.size, self.labels = name, model, bound, size, labels

    @cached_property
    def plan(self):
        return self.model(epsilon=2.0, delta=1e-5, label_holder="bank", engine="in-process").plan(self.make()).joint

    @property
    def event(self):
        return self.plan.event

    def make(self, *, budget=(30.0, 1e-2), **more):
        facts = {self.bound: self.size, "budget": budget, **more}
        return [
            Party(X[:, :3], name="bank", **facts),
            Party(X[:, 3:], name="clinic", **facts),
            Helper("notary"),
        ]

    def block(self, helper="notary", **changed):
        """Return the plan with another description of the second party, and another helper perhaps."""
        first, second = self.plan.blocks
        blocks = first, dataclasses.replace(second, **changed)
        return dataclasses.replace(self.plan, blocks=blocks, helpers=(helper,))

    def swapped(self):
        """Return the plan in which a party with a table is the helper, and the other way round."""
        return self.block("clinic", name="notary")


KINDS = [
    Kind(
        "sums",
        partial(VerticalLogisticRegression, mechanism="secure", classes=[-1, 1], mechanism_options={"n_passes": 2}),
        "data_norm", 2.0, np.where(X.sum(axis=1) > 0.0, 1.0, -1.0),
    ),
    Kind(
        "choices", partial(VerticalLasso, aggregation="secure", label_bounds=(-1, 1), radius=1.0, n_steps=3),
        "data_bound", 1.0, X.sum(axis=1) / 5.0,
    ),
]  # fmt: skip
EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


class Table:
    """The parties around one table, with one session at all of them; the first has the labels."""

    def __init__(self, kind, parties=None, plan=None):
        self.kind, self.plan = kind, plan or kind.plan
        self.parties = parties or kind.make()
        self.cards = "[]"
        self.lines = [Line(party) for party in self.parties]
        name = new_session()
        for line in self.lines:
            line.name = name

    @property
    def spent(self):
        return [party.spent for party in self.parties[:2]]

    def all(self, *messages):
        requests = messages if len(messages) > 1 else messages * len(self.lines)
        return [line.ask(message) for line, message in zip(self.lines, requests, strict=True)]

    def invite(self):
        cards = self.all(Invite(self.plan.text()))
        assert all(isinstance(each, Payload) for each in cards)
        self.cards = json.dumps([each.octets.decode() for each in cards])
        return self

    def connect(self):
        self.invite()
        assert all(isinstance(each, Done) for each in self.all(Connect(self.cards)))
        self.wait()
        return self

    def wait(self):
        """Ask until all are ready, and return what they say."""
        for _ in range(1000):
            replies = self.all(Poll())
            assert all(isinstance(each, Payload) for each in replies), [getattr(each, "reason", "") for each in replies]
            if all(each.numbers[1] for each in replies):
                return replies
        raise AssertionError("it never ends")

    def join(self):
        """Begin, and wait for what is opened."""
        self.connect()
        starts = self.all(Join(self.kind.labels), *[Join(NOTHING)] * (len(self.lines) - 1))
        assert all(isinstance(each, Done) for each in starts)
        self.opened = self.wait()
        return self

    def end(self):
        self.all(Close())


@pytest.fixture(autouse=True)
def nobody_waits_long(monkeypatch):
    monkeypatch.setattr(handlers, "_WAIT", 0.02)


@pytest.fixture
def table_of():
    """Return a function that lays a table, which is cleared at the end."""
    laid = []

    def lay(*given, **more):
        laid.append(Table(*given, **more))
        return laid[-1]

    yield lay
    for table in laid:
        table.end()


def refused(reply, *words):
    """Check that a reply is a refusal in these words."""
    assert isinstance(reply, Refused), reply
    for word in words:
        assert word in reply.reason


# --- the plan ---------------------------------------------------------------------------------------------------------


@EACH
def test_what_is_no_plan_of_this_party_is_refused(kind):
    text = kind.plan.text()
    no_plans = ["", "{}", "[]", "null", "[" * 30_000, text + " ", text.replace("2.0", "2.00"), '{"a":NaN}']
    line = Line(kind.make()[1])
    for each in no_plans:
        refused(line.ask(Invite(each)))
    for plan, word in [
        (dataclasses.replace(kind.plan, n_samples=N + 1), "the plan says"),
        (kind.block(bound=0.5), "the plan says"),
        (kind.block(n_features=3), "the plan says"),
        (kind.block(name="shop"), "this is 'clinic'"),
        (dataclasses.replace(kind.plan, engine="spu"), "it does not compute with the engine 'spu'"),
        (kind.swapped(), "takes a party with a table for a helper"),
    ]:
        refused(line.ask(Invite(plan.text())), word)
    refused(Line(kind.make()[2]).ask(Invite(kind.swapped().text())), "for a helper")


@EACH
def test_a_party_is_asked_in_only_where_its_owner_gave_leave(kind):
    sited = kind.make(computing=ComputeSite(partners={"bank"}))[1]
    refused(Line(sited).ask(Invite(kind.plan.text())), "does not compute with the engine 'in-process'")
    silent = kind.make(answers=set())[1]
    assert json.loads(Line(silent).ask(Describe(1)).engines) == {}
    refused(Line(silent).ask(Invite(kind.plan.text())), "does not answer Invite")
    other = "data_bound" if kind.bound == "data_norm" else "data_norm"
    boundless = Party(X[:, 3:], name="clinic", **{other: 2.0})
    refused(Line(boundless).ask(Invite(kind.plan.text())), f"it declared no {kind.bound}")


# --- the order --------------------------------------------------------------------------------------------------------


@EACH
def test_nothing_comes_before_its_turn(kind, table_of):
    later = [Connect("[]"), Poll(), Join(NOTHING), Poll("m")]
    for message in later:
        refused(Line(kind.make()[1]).ask(message), "came without its start")
    for message in later[1:]:
        table = table_of(kind).invite()
        refused(table.lines[1].ask(message), "out of its turn")
        assert table.spent == [NothingReleased()] * 2


@EACH
def test_the_start_is_charged_once_and_all_that_is_opened_follows_from_it(kind, table_of):
    table = table_of(kind).join()
    line, opened = table.lines[1], table.opened
    values = opened[0].numbers[2:]
    assert len(values) == sum(kind.plan.n_opened(step) for step in range(kind.plan.n_steps + 1))
    ends = np.cumsum([kind.plan.n_opened(step) for step in range(kind.plan.n_steps + 1)])
    for replies in (opened, table.all(Poll())):  # asked again, it is the same
        assert [tuple(each.numbers[:2]) for each in replies] == [(kind.plan.n_steps + 1, 1)] * 3
        assert all(np.array_equal(each.numbers[2:], values) for each in replies)
    for message in (Connect(table.cards), Invite(kind.plan.text())):
        refused(line.ask(message))
    assert isinstance(line.ask(Join(NOTHING)), Done)  # it comes again
    refused(table.lines[2].ask(Poll("m")), "a helper has no part")
    refused(line.ask(Poll("m", bytes(32))), "opened other numbers than it is told of")
    assert line.ask(Poll("m", hashlib.sha256(values.tobytes()).digest())).numbers.tolist() == [kind.plan.n_steps + 1, 1]
    fitting = kind.plan.fitting()
    for each in np.split(values, ends[:-1]):
        fitting.take(each)
    assert np.array_equal(table.parties[1].parts["m"].coef, fitting.weights["clinic"][0])
    assert line.ask(Poll("m")).numbers.tolist() == [kind.plan.n_steps + 1, 1]
    assert isinstance(line.ask(Join(NOTHING)), Done)
    assert table.spent == [kind.event] * 2


@EACH
def test_nothing_is_told_and_nothing_kept_before_the_end(kind, table_of):
    table = table_of(kind).connect()
    line = table.lines[1]
    assert isinstance(line.ask(Join(NOTHING)), Done)  # its partners have not begun
    for message in (Poll("m"), Poll()):
        assert line.ask(message).numbers.tolist() == [0, 0]
    assert not table.parties[1].keeps("m")


@EACH
def test_labels_are_for_the_label_holder_alone_and_one_a_row(kind, table_of):
    table = table_of(kind).connect()
    refused(table.lines[1].ask(Join(kind.labels)), "for the label holder alone")
    refused(table.lines[0].ask(Join(kind.labels[:3])), "3 numbers for 40 rows")
    refused(table.lines[0].ask(Join(NOTHING)), "0 numbers for 40 rows")
    table.parties[1].most_models = 0
    refused(table.lines[1].ask(Join(NOTHING)), "it keeps 0 models of this run")
    assert table.spent == [NothingReleased()] * 2


@EACH
def test_what_the_budget_does_not_cover_shares_nothing(kind, table_of):
    """An invitation beyond the budget is refused, and of two that it covers once the second training shares nothing."""
    refused(Line(kind.make(budget=(0.01, 1e-6))[1]).ask(Invite(kind.plan.text())), "budget")
    given = kind.make(budget=(2.1, 1e-5))
    one, other = (table_of(kind, given).connect() for _ in range(2))
    assert isinstance(one.lines[1].ask(Join(NOTHING)), Done)
    refused(other.lines[1].ask(Join(NOTHING)), "budget")
    assert other.lines[1].ask(Poll()).numbers[0] == 0
    assert given[1].spent == kind.event


# --- partners ---------------------------------------------------------------------------------------------------------


@EACH
def test_cards_that_are_not_those_of_this_table_end_the_invitation(kind, table_of):
    other = json.loads(table_of(kind, plan=dataclasses.replace(kind.plan, epsilon=1.0)).invite().cards)
    for cards in ("", "{}", "[1]", "[]", '["{}", "{}", "{}"]', "[" * 30_000, "mixed", "turned"):
        table = table_of(kind).invite()
        own = json.loads(table.cards)
        told = {"mixed": json.dumps([*own[:2], other[2]]), "turned": json.dumps(own[::-1])}.get(cards, cards)
        refused(table.lines[1].ask(Connect(told)))
        refused(table.lines[1].ask(Join(NOTHING)))
        assert table.spent == [NothingReleased()] * 2
        table.end()


# --- what is held -----------------------------------------------------------------------------------------------------


@EACH
def test_so_many_joint_trainings_at_a_time(kind, table_of):
    parties = kind.make()
    tables = [table_of(kind, parties).invite() for _ in range(handlers.MOST_JOINT)]
    refused(Line(parties[1]).ask(Invite(kind.plan.text())), "in at most 2 at a time")
    tables[0].end()
    table_of(kind, parties).invite()


def test_an_invitation_that_nobody_follows_ends_by_itself(monkeypatch):
    monkeypatch.setattr(handlers, "_PATIENCE", 0.05)
    kind = KINDS[0]
    party = kind.make()[1]
    line = Line(party)
    line.ask(Invite(kind.plan.text()))
    worker = worker_of(party)
    worker._thread.join(5.0)
    assert not worker.is_open
    refused(line.ask(Connect("[]")), "nobody asked for anything for 0.05 seconds")


# --- anything at all --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@EACH
def test_whatever_comes_in_whatever_order_what_is_opened_was_charged(kind, seed, table_of):
    rng = random.Random(seed)
    parties = kind.make()
    tables = [table_of(kind, parties).invite() for _ in range(2)]
    opened = set()
    for _ in range(60):
        table = rng.choice(tables)
        messages = [
            Invite(kind.plan.text()), Connect(table.cards), Poll(), Join(NOTHING), Join(kind.labels), Poll("m"),
            Describe(),
        ]  # fmt: skip
        reply = rng.choice(table.lines).ask(rng.choice(messages))
        if isinstance(reply, Payload) and reply.numbers[:1].any():
            opened.add(id(table))
    for spent in tables[0].spent:
        assert spent in (NothingReleased(), kind.event, compose(kind.event, kind.event))
        assert not opened or spent != NothingReleased()


@EACH
@pytest.mark.parametrize("size", [np.nan, np.inf, -np.inf, 1e308, 1e18])
def test_points_of_any_size_keep_margins_within_what_the_plan_says(kind, size):
    """A product that is not a number would be any whole number at all."""
    engines = ["in-process", "shamir"] if kind.bound == "data_norm" else ["in-process"]
    for plan in (handlers.plan_from_text(dataclasses.replace(kind.plan, engine=each).text()) for each in engines):
        rows = plan.rows("clinic", X[:, 3:])
        most = 2**40 if kind.name == "choices" else np.abs(plan.margins("clinic", rows, np.array([1e12, 1e12]))).max()
        for point in ([size, -size], [size, size], [-size, size], [size, 0.0]):
            margins = plan.margins("clinic", rows, np.array(point))
            assert margins.dtype == np.int64
            assert np.abs(margins).max() <= most
