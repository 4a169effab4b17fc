"""Events refuse nonsense, cannot be changed, survive storage, and are rebuilt from a closed list of kinds only."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.events import (
    KINDS,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    RepeatedEvent,
    compose,
    event_from_dict,
    outline,
)

GAUSSIAN = GaussianEvent(1.0)
NOT_NUMBERS = [None, True, "1", "inf", [1.0], 1j, np.array([1.0]), np.bool_(True), GAUSSIAN, math.nan, -math.inf]
NOT_EVENTS = [None, 1.0, "gaussian", {"kind": "gaussian", "noise_multiplier": 1.0}, GaussianEvent, (GAUSSIAN,)]
OTHER_RELEASES = [
    NonPrivateEvent(), RandomizedResponseEvent(1.0), PureEvent(1.0), RepeatedEvent(GAUSSIAN, 2),
    PoissonSampledEvent(0.5, GAUSSIAN),
]  # fmt: skip
NEVER_EPSILON = [0.0, -0.5, math.inf, 10**400, *NOT_NUMBERS]  # infinite too: a public label is not an event
NONSENSE = {
    "noise": (GaussianEvent, [0.0, -0.0, -1.0, 10**400, Fraction(1, 10**400), *NOT_NUMBERS], "noise_multiplier"),
    "rate": (
        lambda value: PoissonSampledEvent(value, GAUSSIAN), [-1e-9, 1.0000001, 1.7, math.inf, *NOT_NUMBERS],
        "sampling_rate",
    ),
    "response": (RandomizedResponseEvent, [1e301, *NEVER_EPSILON], "epsilon"),
    "pure": (PureEvent, [1e301, *NEVER_EPSILON], "epsilon"),
    "range": (BoundedRangeEvent, [1e7, *NEVER_EPSILON], "epsilon"),
    "trials": (lambda value: RepeatAndSelectEvent(GAUSSIAN, value), [0.99, 0.0, -1.0, math.inf, 1.1e6, None], "mean"),
    "count": (
        lambda value: RepeatedEvent(GAUSSIAN, value), [-1, -5, 1.0, 2.5, np.float64(2), math.inf, *NOT_NUMBERS],
        "count",
    ),
    "repeated": (lambda value: RepeatedEvent(value, 2), NOT_EVENTS, "event must be an Event"),
    "searched": (lambda value: RepeatAndSelectEvent(value, 2.0), NOT_EVENTS, "event must be an Event"),
    "sampled": (lambda value: PoissonSampledEvent(0.5, value), NOT_EVENTS, "event must be a GaussianEvent"),
    "amplified": (
        lambda value: PoissonSampledEvent(0.5, value), OTHER_RELEASES,
        "amplification by sampling is accounted for no other",
    ),
    "parts": (lambda value: ComposedEvent((GAUSSIAN, value)), NOT_EVENTS, "events must hold Event objects only"),
    "composed": (ComposedEvent, [None, 3, GAUSSIAN], "events must be a tuple of Event objects"),
}  # fmt: skip


# --- constructors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "values", "words"), NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_refused(make, values, words):
    for value in values:
        with pytest.raises(ParameterError, match=words):
            make(value)


def test_good_values_are_kept_as_plain_numbers():
    event = RepeatedEvent(PoissonSampledEvent(np.float32(0.5), GaussianEvent(np.int64(2))), np.int64(3))
    assert type(event.count) is int
    assert type(event.event.sampling_rate) is float
    assert type(event.event.event.noise_multiplier) is float
    assert GaussianEvent(1) == GaussianEvent(1.0)
    assert hash(GaussianEvent(1)) == hash(GaussianEvent(1.0))
    assert GaussianEvent(math.inf).noise_multiplier == math.inf
    assert [PoissonSampledEvent(rate, GAUSSIAN).sampling_rate for rate in (0, 1)] == [0.0, 1.0]
    assert RepeatedEvent(GAUSSIAN, 0).count == 0
    parts = [GAUSSIAN]
    event = ComposedEvent(parts)
    parts.append(NonPrivateEvent())
    assert event.events == (GAUSSIAN,)


# --- storage ----------------------------------------------------------------------------------------------------------

NOISE = st.one_of(st.floats(min_value=0.0, exclude_min=True, allow_nan=False), st.integers(1, 10**6))
RELEASES = st.builds(GaussianEvent, NOISE)
EVENTS = st.recursive(
    st.one_of(
        st.just(NothingReleased()),
        st.just(NonPrivateEvent()),
        RELEASES,
        st.builds(RandomizedResponseEvent, st.floats(1e-300, 1e300)),
        st.builds(PureEvent, st.floats(1e-300, 1e300)),
        st.builds(BoundedRangeEvent, st.floats(1e-300, 1e6)),
        st.builds(PoissonSampledEvent, st.floats(0.0, 1.0), RELEASES),
    ),
    lambda inner: st.one_of(
        st.builds(RepeatedEvent, inner, st.integers(0, 2**70)),
        st.builds(RepeatAndSelectEvent, inner, st.floats(1.0, 1e6)),
        st.builds(ComposedEvent, st.lists(inner, max_size=4).map(tuple)),
    ),
    max_leaves=15,
)


@given(EVENTS)
def test_events_survive_storage_and_cannot_be_changed(event):
    text = json.dumps(event.to_dict(), allow_nan=False)
    again = event_from_dict(json.loads(text))
    assert again == event and hash(again) == hash(event)
    assert json.dumps(again.to_dict(), allow_nan=False) == text
    for name in [field.name for field in dataclasses.fields(event)] + ["kind", "further"]:
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            setattr(event, name, 0.5)


NOTHING, STORED_GAUSSIAN = {"kind": "nothing"}, {"kind": "gaussian", "noise_multiplier": 2.0}
STORED = {
    "gaussian": (STORED_GAUSSIAN, GaussianEvent(2.0)),
    "poisson-sampled": (
        {"kind": "poisson-sampled", "sampling_rate": 0.5, "event": STORED_GAUSSIAN},
        PoissonSampledEvent(0.5, GaussianEvent(2.0)),
    ),
    "randomized-response": ({"kind": "randomized-response", "epsilon": 0.75}, RandomizedResponseEvent(0.75)),
    "pure": ({"kind": "pure", "epsilon": 0.75}, PureEvent(0.75)),
    "bounded-range": ({"kind": "bounded-range", "epsilon": 0.75}, BoundedRangeEvent(0.75)),
    "repeated": ({"kind": "repeated", "count": 2, "event": NOTHING}, RepeatedEvent(NothingReleased(), 2)),
    "composed": ({"kind": "composed", "events": [{"kind": "non-private"}]}, ComposedEvent((NonPrivateEvent(),))),
    "repeat-and-select": (
        {"kind": "repeat-and-select", "mean": 10.0, "event": NOTHING}, RepeatAndSelectEvent(NothingReleased(), 10.0)
    ),
}  # fmt: skip


def test_the_stored_form_never_changes_and_missing_keys_are_named():
    """Old receipts must stay readable: a new meaning is a new kind."""
    assert set(STORED) == set(KINDS) - {"nothing", "non-private"}
    for kind, (stored, event) in STORED.items():
        assert event_from_dict(stored) == event
        assert event.to_dict() == stored
        for key in stored.keys() - {"kind"}:
            with pytest.raises(AccountingError, match=f"kind '{kind}' is incomplete, .*: '{key}'"):
                event_from_dict({name: value for name, value in stored.items() if name != key})
        with pytest.raises(AccountingError, match="has too much: 'certified'"):
            event_from_dict({**stored, "certified": "by an authority"})
    infinite = {"kind": "gaussian", "noise_multiplier": "inf"}  # JSON has no infinity
    assert event_from_dict(infinite) == GaussianEvent(math.inf)
    assert GaussianEvent(math.inf).to_dict() == infinite


def test_unknown_kinds_are_refused():
    known = (
        "bounded-range, composed, gaussian, non-private, nothing, poisson-sampled, pure, randomized-response, "
        "repeat-and-select, repeated"
    )
    for data in (
        None, 3, "gaussian", [], {}, {"noise_multiplier": 1.0},
        *({"kind": kind, "noise_multiplier": 1.0} for kind in (
            None, [], {"kind": "gaussian"}, "Gaussian", "laplace", "GaussianEvent", "os.system",
            "objective-perturbation",  # was a kind once
        )),
    ):  # fmt: skip
        with pytest.raises(AccountingError, match=rf"not an event of a known kind \({known}\)"):
            event_from_dict(data)
        with pytest.raises(AccountingError, match="not an event of a known kind"):
            event_from_dict({"kind": "composed", "events": [NOTHING, data]})


WRONG = [
    ("gaussian", "noise_multiplier", ["2.0", -1, 10**400, "-inf", {}], "noise_multiplier"),
    ("poisson-sampled", "sampling_rate", ["inf", True], "sampling_rate"),
    ("poisson-sampled", "event", [NOTHING, 3], "expected an event of kind 'gaussian'"),
    ("randomized-response", "epsilon", ["inf", -1.0], "epsilon"),
    ("repeated", "count", [2.0, -2, "2"], "count"),
    ("repeated", "event", [None], "not an event"),
    ("composed", "events", [NOTHING, "abc"], "'events' of a composed event must be a list"),
    ("composed", "events", [["nothing"]], "not an event"),
    ("repeat-and-select", "mean", [0.5, "inf"], "mean must be a finite number >= 1"),
    ("repeat-and-select", "event", ["gaussian"], "not an event"),
]


def test_wrong_values_are_refused():
    for kind, key, values, words in WRONG:
        for value in values:
            with pytest.raises((AccountingError, ParameterError), match=words):
                event_from_dict(STORED[kind][0] | {key: value})


def test_bottomless_nesting_is_refused():
    data: dict = NOTHING
    for _ in range(5000):
        data = {"kind": "repeated", "count": 1, "event": data}
    with pytest.raises(AccountingError, match="nested too deeply"):
        event_from_dict(data)


LEAVES = st.sampled_from([None, True, 0, -1, 2.5, math.nan, "x", *KINDS, "inf", 10**400])
KEYS = st.sampled_from(["kind", "noise_multiplier", "epsilon", "sampling_rate", "event", "events", "count", "other"])
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=4),
        st.fixed_dictionaries({"kind": st.just("composed"), "events": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"kind": st.just("repeated"), "count": inner, "event": inner}),
        st.fixed_dictionaries({"kind": st.just("gaussian"), "noise_multiplier": inner}),
        st.fixed_dictionaries({"kind": st.just("poisson-sampled"), "sampling_rate": inner, "event": inner}),
    ),
    max_leaves=12,
)


@given(JSON)
@example({"kind": "repeated", "count": 10**400, "event": {"kind": "gaussian", "noise_multiplier": 10**400}})
def test_foreign_data_give_an_event_or_a_known_error(data):
    try:
        event = event_from_dict(data)
    except (AccountingError, ParameterError):
        return
    assert isinstance(event, Event)
    assert event_from_dict(event.to_dict()) == event


# --- in words ---------------------------------------------------------------------------------------------------------


def test_compose_wraps_only_where_needed():
    nothing, other = NothingReleased(), GaussianEvent(2.0)
    assert compose() == compose(nothing, nothing) == nothing
    assert compose(nothing, GAUSSIAN) is GAUSSIAN
    assert compose(GAUSSIAN, nothing, other) == ComposedEvent((GAUSSIAN, other))
    assert compose(GAUSSIAN, GAUSSIAN) == ComposedEvent((GAUSSIAN, GAUSSIAN))


def test_describe_and_outline():
    """What a repetition covers is shown; a schedule of noise has one line in the outline, which leaves nothing out."""
    step, one = PoissonSampledEvent(0.01, GaussianEvent(1.25)), "Gaussian release, noise multiplier 1"
    for event, words in (
        (NothingReleased(), "nothing"),
        (NonPrivateEvent(), "a release without protection"),
        (RandomizedResponseEvent(0.75), "randomised response of one bit, epsilon 0.75"),
        (PureEvent(0.75), "one release of pure differential privacy, epsilon 0.75"),
        (RepeatedEvent(BoundedRangeEvent(0.25), 3), "3 times: exponential mechanism of bounded range 0.25"),
        (RepeatedEvent(step, 40), f"40 times: {one}.25, on a secret Poisson sample at rate 0.01"),
        (ComposedEvent((GAUSSIAN, NonPrivateEvent())), f"{one}\na release without protection"),
        (
            RepeatAndSelectEvent(GAUSSIAN, 4.0),
            f"the best of a random, secret number of runs (geometric, mean 4), each:\n  {one}",
        ),
        (
            ComposedEvent((RepeatedEvent(ComposedEvent((GAUSSIAN, GAUSSIAN)), 3), NothingReleased())),
            f"3 times all of:\n  {one}\n  {one}\nnothing",
        ),
    ):
        assert event.describe() == words
    schedule = [RepeatedEvent(GaussianEvent(noise), 2) for noise in (10.0, 11.0, 12.5)]
    event = compose(*schedule, PureEvent(0.5), GaussianEvent(3.0), RepeatedEvent(PureEvent(0.1), 4))
    assert outline(event).splitlines() == [
        "6 Gaussian releases, noise multipliers 10 to 12.5",
        "one release of pure differential privacy, epsilon 0.5",
        "1 Gaussian release, noise multiplier 3",
        "4 times: one release of pure differential privacy, epsilon 0.1",
    ]
    search = RepeatAndSelectEvent(GaussianEvent(1.0), 10.0)
    assert outline(search) == search.describe()
    assert outline(NothingReleased()) == "nothing"
