"""The line between coordinator and parties: what is counted, what is refused, and what never crosses."""

import itertools
import logging
import math
import re
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils.validation import check_array

from sottovoce.exceptions import DataError, ParameterError, PartyError
from sottovoce.privacy.events import NothingReleased
from sottovoce.vertical import VerticalLogisticRegression
from sottovoce.vertical.columns import Columns, table_of
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.requests import general as exact
from sottovoce.vertical.requests.general import Describe, Description, KeepWeights, Score, ShowColumns
from sottovoce.vertical.wire import FRAME_BYTES, Done, Payload, Refused
from support.crossing import recorded
from support.noisy_rounds import ROUNDS
from support.party import Line, decode, request

INF = math.inf


def table(seed, n=50, widths=(3, 4)):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, width)) for width in widths], np.where(rng.random(n) < 0.5, -1.0, 1.0)


def joined(blocks, **options):
    return InProcessParties([Party(block, name=f"p{m}", **options) for m, block in enumerate(blocks)])


PLAIN = np.arange(6.0).reshape(3, 2)
TABLES = {
    "plain": PLAIN, "short": np.ones((2, 2), np.float32), "by columns": np.asfortranarray(PLAIN), "list": [[1.0, 2.0]],
    "spread": np.arange(12.0).reshape(3, 4)[:, ::2], "other bytes": PLAIN.astype(">f8"), "whole": PLAIN.astype(int),
    "no rows": np.ones((0, 2)), "no columns": np.ones((2, 0)), "deep": np.ones((2, 2, 2)), "flat": np.ones(3),
    "huge": np.full((2, 2), 1.7e308), "sparse": sp.csr_array(np.eye(2)), "matrix": np.ones((2, 2)).view(np.matrix),
    "nan": np.where(PLAIN == 3.0, np.nan, PLAIN), "infinite": np.where(PLAIN == 3.0, -np.inf, PLAIN),
}  # fmt: skip


@pytest.mark.parametrize("X", TABLES.values(), ids=TABLES)
def test_a_table_is_taken_or_refused_as_by_scikit_learn(X):
    """A party's process does without it where a site has read the table."""
    try:
        expected = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", input_name="X")
    except (ValueError, TypeError) as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            table_of(X, "X")
        return
    got = table_of(X, "X")
    assert type(got) is type(expected) and got.dtype == expected.dtype
    if isinstance(got, np.ndarray):
        assert np.array_equal(got, expected) and got.flags.c_contiguous and (got is X) == (expected is X)


class Fake:
    """A party that answers whatever it was given."""

    def __init__(self, name, answer):
        self.name, self.answer = name, answer

    def handle(self, raw):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


# --- counting and recording -------------------------------------------------------------------------------------------


def test_counters_are_the_sum_of_what_crossed():
    blocks, y = table(0, n=80)
    parties = joined(blocks)
    with recorded(parties) as crossings:
        VerticalLogisticRegression(epsilon=INF).fit(parties, y)
        during = len(crossings)
    for uplink, total, frame in ((True, parties.uplink_bytes, 0), (False, parties.downlink_bytes, FRAME_BYTES)):
        own = [crossing for crossing in crossings if crossing.uplink is uplink]
        assert total == sum(crossing.n_bytes for crossing in own) > 0
        assert total == sum(len(c.message.encode()) + frame for c in own)
        assert {crossing.party for crossing in own} == {"p0", "p1"}
    parties.exchange(Describe(), Description)
    assert len(crossings) == during  # nothing is recorded outside the block


def test_a_refusal_is_counted_and_so_is_what_came_with_it():
    """One party refuses; the bytes of the other crossed all the same."""
    blocks, _ = table(0)
    parties = InProcessParties([Party(blocks[0], name="p0", budget=(1.0, 1e-6)), Party(blocks[1], name="p1")])
    with recorded(parties) as crossings, pytest.raises(PartyError, match="'p0' refused ShowColumns: its budget"):
        parties.exchange(ShowColumns(), Payload)
    assert [type(crossing.message) for crossing in crossings if crossing.uplink] == [Refused, Payload]
    assert parties.uplink_bytes == sum(crossing.n_bytes for crossing in crossings if crossing.uplink)


def test_replies_come_in_the_order_of_the_parties():
    parties = joined(table(0, widths=(1, 2, 3))[0])
    replies = parties.exchange({name: Describe() for name in ("p2", "p0")}, Description)
    assert list(replies) == ["p0", "p2"]
    assert [reply.n_features for reply in replies.values()] == [1, 3]


# --- parties that fail ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"", "answered Describe with no Description"),
        (b"\x80\x04garbage that is long enough", "answered Describe with no Description"),
        (Payload([1.0]).encode()[:-1], "answered Describe with no Description"),
        (Payload([1.0]).encode() + b"x", "answered Describe with no Description"),
        (Payload([1.0]).encode(), "answered Describe with no Description: no message has kind 16 here"),
        (Describe().encode(), "answered Describe with no Description: no message has kind 14 here"),
        (Refused("no").encode(), "refused Describe: no"),
        (None, "answered with NoneType, not with bytes"),
        ("text", "answered with str, not with bytes"),
        (ValueError("secret 31415.9"), r"failed \(ValueError\)"),
    ],
)
def test_a_party_that_fails_is_named(answer, fault):
    good = Party(np.ones((3, 1)), name="good")
    for order in ([good, Fake("shop", answer)], [Fake("shop", answer), good], [Fake("shop", answer)]):
        with pytest.raises(PartyError, match=f"party 'shop' .*{fault}") as caught:
            InProcessParties(order).exchange(Describe(), Description)
        assert "31415" not in str(caught.value)


def test_names_must_differ_and_exist():
    one = Party(np.ones((3, 1)), name="bank")
    with pytest.raises(ParameterError, match="names of the parties must differ; 'bank' repeats"):
        InProcessParties([one, Party(np.ones((3, 2)), name="bank")])
    with pytest.raises(ParameterError, match="at least one party"):
        InProcessParties([])
    with pytest.raises(ParameterError, match="no party is named 'shop'"):
        InProcessParties([one]).ask("shop", Describe(), Description)


# --- what a party refuses ---------------------------------------------------------------------------------------------


def test_weights_of_the_wrong_length_and_models_that_are_not_there_are_refused():
    party = Party(table(0)[0][0], name="p")
    for length in (0, 1, 3, 5):
        reply = request(party, KeepWeights("m", np.zeros(length)))
        assert reply.reason == f"{length} weights came for 3 columns and that of ones"
    assert "no part of a model named 'm'" in request(party, Score("m")).reason


@pytest.mark.parametrize("kind", [np.float64, np.float32, sp.csr_array])
def test_a_table_that_is_shown_is_the_partys_own(kind):
    given = kind(np.where(table(0)[0][0] > 0.0, table(0)[0][0], 0.0))
    told = exact.table_from(request(Party(given, name="p"), ShowColumns()), 50, 3)
    assert sp.issparse(told) == sp.issparse(given)
    assert np.array_equal(told.toarray() if sp.issparse(told) else told, Party(given, name="p").take(range(50)).table
                          if not sp.issparse(given) else given.toarray())  # fmt: skip


def test_what_a_full_disk_did_not_keep_is_kept_as_it_was_after_the_repair():
    party = Party(table(0)[0][0], name="p")
    line, party.on_keeping = Line(party), Mock(side_effect=[OSError(28, "No space left on device"), None])
    last = line.frame(KeepWeights("m", [1.0, 2.0, 3.0, 0.5]))
    assert decode(party.handle(last)).reason.startswith("it failed there")
    assert isinstance(decode(party.handle(last)), Done)
    assert (party.parts["m"].coef.tolist(), party.parts["m"].intercept) == ([1.0, 2.0, 3.0], 0.5)


def test_a_long_name_is_refused_in_few_words():
    """A refusal may quote what the coordinator made up, and must fit into a message."""
    reply = request(Party(np.ones((3, 2)), name="p"), Score("\x01" * 60_000))
    assert isinstance(reply, Refused)
    assert len(reply.reason) <= 1000


# --- budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [(0.0, 0.0), (1.0, 1e-6), (1e6, 0.5)])
def test_a_budget_refuses_what_has_no_noise(budget):
    for answers in (None, {"noisy-rounds"}):
        party = Party(np.ones((3, 2)), name="p", budget=budget, answers=answers, protocols=[ROUNDS])
        assert "its budget is epsilon=" in request(party, ShowColumns()).reason
        assert isinstance(request(party, KeepWeights("m", np.zeros(3))), Refused)
        assert isinstance(party.spent, NothingReleased)


def test_a_budget_refuses_scores():
    """Also of a model that it has: a score tells about the row that is scored."""
    party = Party(np.ones((3, 2)), name="p", budget=(1.0, 1e-6))
    party.adopt("m", Part(np.ones(2), 0.5))
    assert "which its budget does not cover" in request(party, Score("m")).reason
    free = Party(np.ones((3, 2)), name="p")
    free.adopt("m", Part(np.ones(2), 0.5))
    assert request(free, Score("m")).numbers == pytest.approx(2.5)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.filterwarnings("error")
def test_scores_are_numbers_whatever_rows_and_weights_are(kind):
    """Where they leave the doubles they are cut: a failure would tell of a row."""
    sizes = [1e-300, 1.0, 1e139, 1e150, 1e308]
    for entry, weight, intercept in itertools.product([*sizes, -1e308], sizes, [0.0, -1e308]):
        party = Party(kind([[entry, entry], [1.0, 0.0]]), name="p")
        party.adopt("m", Part(np.array([weight, -weight]), intercept))
        told = request(party, Score("m")).numbers
        assert np.abs(told).max() <= 1e140
        exact = min(max(weight + intercept, -1e140), 1e140)
        assert told[1] == exact


# --- what a party is made of ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "options", "error", "fault"),
    [
        (np.full((3, 2), np.nan), {}, DataError, "'p' contains NaN"),
        ([["a", "b"]], {}, DataError, "columns whose type is no number"),
        (-np.ones((3, 2)), {"nonnegative": True}, DataError, "'p' was declared nonnegative and holds negative"),
        (sp.csr_matrix(-np.eye(3)), {"nonnegative": True}, DataError, "declared nonnegative"),
        (np.ones((3, 2)), {"data_norm": 0.0}, ParameterError, "data_norm must be .*>= 1e-50 .*; got 0.0"),
        (np.ones((3, 2)), {"data_bound": math.nan}, ParameterError, "data_bound"),
        (np.ones((3, 2)), {"y": [1, 2]}, DataError, "y of party 'p' must hold one entry for each of its 3 rows"),
        (np.ones((3, 2)), {"ids": [1, 2, 3, 4]}, DataError, "ids of party 'p' must hold one entry"),
        (np.ones((3, 2)), {"name": ""}, ParameterError, "name must be a non-empty string; got ''"),
    ],
)
def test_wrong_parties(X, options, error, fault):
    with pytest.raises(error, match=fault):
        Party(X, **{"name": "p"} | options)


def test_rows_are_taken_in_order_with_all_facts():
    party = Party(np.arange(8.0).reshape(4, 2), ids=list("abcd"), y=[1, 2, 3, 4], name="p", data_norm=3.0)
    request(party, ShowColumns())
    some = party.take([2, 0])
    assert (list(some.ids), list(some.y), some.data_norm, some.name) == (["c", "a"], [3, 1], 3.0, "p")
    assert some.spent == party.spent
    some.adopt("m", Part(np.array([1.0, 10.0]), 0.0))
    assert request(some, Score("m")).numbers == pytest.approx([54.0, 10.0])


# --- an error of a party quotes no data -------------------------------------------------------------------------------

SENTINEL = 31415.926535


def quotes(*args, **kwargs):
    raise ValueError(f"could not use the row [{SENTINEL}, 27182.8]")


@pytest.mark.parametrize(
    ("owner", "method", "message"), [(Columns, "times", Score("kept")), (exact, "shown", ShowColumns())]
)
def test_an_unforeseen_error_quotes_no_data(owner, method, message, monkeypatch, caplog):
    """Errors of numpy and scipy may hold values: what crosses is one sentence, and the party's log has the place."""
    caplog.set_level(logging.ERROR)
    party = Party(np.full((3, 2), SENTINEL), name="p")
    party.adopt("kept", Part(np.ones(2), 0.0))
    monkeypatch.setattr(owner, method, quotes)
    raw = request(party, message).encode()
    assert decode(raw).reason == "it failed there; the party's own log says more"
    for secret in (b"31415", b"27182", np.float64(SENTINEL).tobytes()):
        assert secret not in raw
    assert "31415" not in caplog.text
    assert "failed with ValueError" in caplog.text and "in quotes" in caplog.text
    with pytest.raises(PartyError, match="party 'p' refused") as caught:
        InProcessParties([party]).exchange(message, Done)
    assert "31415" not in str(caught.value)
