"""The receipt: it states what its event costs, survives storage, and refuses what it cannot stand for."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sottovoce._shown import rounded_up
from sottovoce.exceptions import AccountingError, ModelFormatError, ParameterError
from sottovoce.privacy.accounting import GaussianAccountant, PLDAccountant, gaussian_epsilon
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import (
    ComposedEvent,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    PoissonSampledEvent,
    RepeatedEvent,
)
from sottovoce.privacy.guarantee import Guarantee

DELTA = 1e-5
EVENT = RepeatedEvent(GaussianEvent(20.0), 25)
SPENT = gaussian_epsilon(0.25, DELTA)
NEVER = NonPrivateEvent()
FIELDS = {
    "epsilon": 1.5,
    "delta": DELTA,
    "adjacency": "zero-out",
    "unit": "one row of the table, label included",
    "mechanism": "a mechanism",
    "releases": ("the weights", "the scale"),
    "event": EVENT,
    "assumptions": ("n = 100",),
    "not_covered": ("timing", "tuning"),
    "seeded": False,
    "accountant": "exact Gaussian DP",
    "proof": "docs/privacy/page.md",
    "version": "0.1.0",
    "parameters": {"steps": 25, "rate": 0.5, "solver": "scd", "limit": math.inf, "warm": False, "nothing": None},
}


def receipt(**changes):
    return Guarantee(**(FIELDS | changes))


# --- what a receipt may say -------------------------------------------------------------------------------------------


def test_a_receipt_that_states_less_than_its_event_costs_is_refused():
    assert receipt(epsilon=SPENT).epsilon == SPENT
    assert receipt(epsilon=SPENT * (1 - 1e-10)).epsilon < SPENT  # the last digits may differ between machines
    assert receipt(delta=0.0, epsilon=math.inf).is_private is False
    more = [
        ComposedEvent((EVENT, PoissonSampledEvent(0.9, GaussianEvent(2.0)))),
        RepeatedEvent(GaussianEvent(20.0), 1000),
    ]
    for changes, words in (
        *(({"epsilon": epsilon}, "more than the epsilon=") for epsilon in (SPENT * (1 - 1e-6), 0.5 * SPENT, 0.0)),
        *(({"event": event}, "the receipt does not describe the run") for event in more),
        *(({"event": event}, "costs epsilon=inf") for event in (NEVER, ComposedEvent((EVENT, NEVER)))),
        ({"delta": 1e-300}, "at delta=1e-300"),
        ({"delta": 0.0}, "costs epsilon=inf"),
    ):
        with pytest.raises(AccountingError, match=f"the event costs epsilon=.*|{words}") as refused:
            receipt(**changes)
        assert re.search(words, str(refused.value))


WRONG = {
    "epsilon": (-0.1, math.nan, -math.inf, None, "much", True, [1.0]),
    "delta": (-0.1, 1.0, math.nan, math.inf, None, "1", True),
    "adjacency": ("neighbours", None),
    "unit": (None, 3),
    "mechanism": (3,),
    "accountant": (b"pld",),
    "proof": (["page"],),
    "version": (1.0, None),
    "releases": ("the weights", None, ("the weights", 3)),
    "assumptions": ({"n": 3}, [1]),
    "not_covered": ([None],),
    "event": (None, {"kind": "nothing"}),
    "seeded": ("no", None, 0),
    "parameters": ([("a", 1)], None, "abc"),
    "day": ("yesterday", "2026-13-01", "2026-11-22T12:00:00"),
    "model": ("0" * 63, 3),
    "schema": ({"text": "x"},),
    "charge": ({"ledger": "a"}, {"ledger": "a", "dataset": "b", "charge": "c", "entry": 3}),
    "signature": ("x", {}),
}


@pytest.mark.parametrize("name", WRONG)
def test_values_of_the_wrong_kind_are_refused_when_made_and_when_read(name):
    key = {"version": "sottovoce", "charge": "ledger"}.get(name, name)
    for value in WRONG[name]:
        with pytest.raises(ParameterError, match=name):
            receipt(**{name: value})
        if (name, value) not in (("event", {"kind": "nothing"}), ("schema", {"text": "x"}), ("accountant", b"pld")):
            with pytest.raises(ModelFormatError, match="receipt"):
                Guarantee.from_dict(stored(**{key: value}))


def test_a_receipt_is_its_own_copy():
    parameters, releases = {"steps": 25}, ["the weights"]
    guarantee = receipt(parameters=parameters, releases=releases, adjacency=Adjacency.ADD_REMOVE, epsilon=np.float32(2))
    parameters["steps"], releases[0] = 1, "nothing"
    assert guarantee.parameters == {"steps": 25}
    assert guarantee.releases == ("the weights",)
    assert guarantee.adjacency == "add-remove"
    assert type(guarantee.epsilon) is float
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.epsilon = 0.1


# --- what it answers --------------------------------------------------------------------------------------------------


def test_accounted_anew():
    guarantee = receipt()
    assert guarantee.epsilon_at(DELTA) == SPENT
    assert guarantee.epsilon_at(1e-9) == GaussianAccountant().epsilon(EVENT, 1e-9) > SPENT
    assert guarantee.delta_at(SPENT) == pytest.approx(DELTA, rel=1e-9)
    assert guarantee.delta_at(1.5) < 1e-8
    sampled = receipt(event=RepeatedEvent(PoissonSampledEvent(0.1, GaussianEvent(5.0)), 10), accountant="PLD")
    assert sampled.epsilon_at(1e-4) == PLDAccountant().epsilon(sampled.event, 1e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"epsilon": 0.0, "event": NothingReleased()}, None),
        ({"seeded": True}, "given random_state: NOT PRIVATE against anyone who knows"),
        ({"epsilon": math.inf}, "NOT PRIVATE"),
        ({"epsilon": math.inf, "event": NEVER}, "trained without noise"),
        ({"epsilon": math.inf, "event": ComposedEvent((EVENT, NEVER))}, "NOT PRIVATE"),
    ],
)
def test_whether_it_is_private_and_what_its_statement_says(changes, words):
    guarantee = receipt(**changes)
    said = f"({guarantee.epsilon:g}, 1e-05)-differential privacy for {FIELDS['unit']}, adjacency zero-out."
    assert guarantee.is_private is (words is None)
    if words is None:
        assert guarantee.statement() == said
    else:
        assert words in guarantee.statement() and "NOT PRIVATE" in guarantee.statement()
        assert ("differential privacy for" in guarantee.statement()) is (guarantee.epsilon < math.inf)


@given(st.floats(1e-300, 1e15))
def test_a_statement_has_six_digits_that_are_not_less(value):
    shown = rounded_up(value, 6)
    assert value <= float(shown) <= value * 1.00001
    assert len(re.sub(r"e.*|^0\.0*|\.", "", shown)) <= 6


# --- storage ----------------------------------------------------------------------------------------------------------

GUARANTEES = st.builds(
    receipt,
    epsilon=st.one_of(st.floats(SPENT, 1e308), st.just(math.inf)),
    adjacency=st.sampled_from([member.value for member in Adjacency]),
    unit=st.text(),
    mechanism=st.text(),
    releases=st.lists(st.text(), max_size=3).map(tuple),
    assumptions=st.lists(st.text(), max_size=3).map(tuple),
    not_covered=st.lists(st.text(), max_size=3).map(tuple),
    seeded=st.booleans(),
    day=st.sampled_from([None, "2026-11-22"]),
    model=st.sampled_from([None, 64 * "a"]),
    schema=st.one_of(st.none(), st.text()),
    charge=st.one_of(
        st.none(), st.fixed_dictionaries(dict.fromkeys(("ledger", "dataset", "charge", "entry"), st.text()))
    ),
    parameters=st.dictionaries(
        st.text(),
        st.one_of(
            st.text().filter(lambda text: text != "inf"),
            st.integers(),
            st.floats(allow_nan=False).filter(lambda value: value != -math.inf),
            st.booleans(),
            st.none(),
        ),
        max_size=3,
    ),
    event=st.sampled_from([EVENT, NothingReleased(), ComposedEvent((GaussianEvent(8.0), GaussianEvent(math.inf)))]),
)


@given(GUARANTEES)
@example(receipt())
def test_round_trip(guarantee):
    text = guarantee.to_json()
    again = Guarantee.from_json(text)
    assert again == guarantee
    assert again.to_json() == text
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def stored(**changes):
    return receipt().to_dict() | changes


def test_the_stored_form_is_stable():
    assert set(stored()) == {
        "format", "version", "statement", "epsilon", "delta", "adjacency", "unit", "mechanism", "releases",
        "assumptions", "not_covered", "parameters", "seeded", "accountant", "proof", "sottovoce", "event",
        "day", "model", "schema", "ledger", "checksum", "signature",
    }  # fmt: skip
    assert stored()["format"] == "sottovoce-receipt"
    assert stored()["version"] == 2
    assert stored()["ledger"] == "no ledger was charged"
    assert receipt(epsilon=math.inf).to_dict()["epsilon"] == "inf"


UNREADABLE = [
    "", "{", "nothing", "\x00", '{"format": "sottovoce-receipt"', "[" * 200_000, '{"a":' * 100_000,
    '{"epsilon": ' + "9" * 5000 + "}", b"\xff\xfe\xfd", None, 3,
]  # fmt: skip


def test_what_is_no_receipt_of_this_format_is_refused_in_words():
    for data in (None, 3, "receipt", [], {}, {"format": "other"}, {"format": None}, {"version": 1}):
        for read in (Guarantee.from_dict, lambda data: Guarantee.from_json(json.dumps(data))):
            with pytest.raises(ModelFormatError, match="not a receipt: 'format' must be 'sottovoce-receipt'"):
                read(data)
    for version in (3, 0, 2.0, True, "1", None, [1]):
        with pytest.raises(ModelFormatError, match=r"receipt version .* cannot be read .* update sottovoce"):
            Guarantee.from_dict(stored(version=version))
    for key in set(stored()) - {"format", "version", "statement"}:
        data = {name: value for name, value in stored().items() if name != key}
        with pytest.raises(ModelFormatError, match=f"no .*'{key}'" if key != "event" else "no event .*'event'"):
            Guarantee.from_dict(data)
    many = {"kind": "repeated", "count": 10**400, "event": {"kind": "gaussian", "noise_multiplier": 1.0}}
    beyond = many | {"event": {"kind": "gaussian", "noise_multiplier": 10**400}}
    for event in (
        {"kind": "laplace"},
        {"kind": []},
        {"kind": "gaussian"},
        {"kind": "gaussian", "noise_multiplier": 0.0},
        beyond,
    ):
        with pytest.raises(ModelFormatError, match="receipt"):
            Guarantee.from_dict(stored(event=event))
    with pytest.raises(ModelFormatError, match="receipt"):
        Guarantee.from_dict(stored(schema="x"))
    with pytest.raises(AccountingError, match="more than 2"):  # it is one, but too large to account
        Guarantee.from_dict(stored(event=many))
    for text in UNREADABLE:
        with pytest.raises(ModelFormatError, match="receipt"):
            Guarantee.from_json(text)


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.sampled_from(["inf", "zero-out"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(sorted(stored())), JSON, min_size=1, max_size=3),
    st.sets(st.sampled_from(sorted(stored())), max_size=1),
)
def test_any_change_gives_a_receipt_or_a_known_error(changes, dropped):
    data = {key: value for key, value in stored(**changes).items() if key not in dropped}
    try:
        guarantee = Guarantee.from_json(json.dumps(data))
    except (ModelFormatError, AccountingError):
        return
    # what was accepted is a receipt in full: it keeps to its event, and prints
    assert guarantee.epsilon_at(guarantee.delta) <= guarantee.epsilon * (1 + 1e-9) + 1e-12
    assert isinstance(guarantee.statement() + guarantee._repr_html_(), str)


# --- print ------------------------------------------------------------------------------------------------------------


def test_html_escapes_every_text():
    evil = "<script>alert('x')</script> & \"co\""
    texts = dict.fromkeys(("unit", "mechanism", "accountant", "proof"), evil)
    lists = dict.fromkeys(("releases", "assumptions", "not_covered"), (evil, evil))
    page = receipt(**texts, **lists, parameters={evil: evil})._repr_html_()
    assert "<script" not in page
    assert "alert('x')" not in page
    assert page.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &quot;co&quot;") == 13
    assert page.startswith("<table>")
    assert page.endswith("</table>")


def test_rows_hold_the_statement_and_its_evidence():
    rows = dict(receipt(seeded=True).rows())
    assert "NOT PRIVATE" in rows["statement"]
    assert list(rows)[:5] == ["unit", "statement", "neighbours", "taken as public or true", "not covered"]
    assert list(rows)[-1] == "parameters"
    assert rows["neighbours"] == Adjacency.ZERO_OUT.statement("one row of the table, label included")
    assert rows["released"] == "the weights\nthe scale"
    assert rows["accounted event"] == "25 Gaussian releases, noise multiplier 20"
    assert "steps = 25" in rows["parameters"]
