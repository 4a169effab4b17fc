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
NOT_NUMBERS = [None, True, "1", "inf", [1.0], 1j, np.array([1.0]), np.bool_(True), GAUSSIAN]
IDS = [f"{type(value).__name__}" for value in NOT_NUMBERS]


# --- constructors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, -0.0, -1.0, math.nan, -math.inf, 10**400, Fraction(1, 10**400)])
def test_noise_out_of_range(noise):
    with pytest.raises(ParameterError, match="noise_multiplier must be a number > 0; got"):
        GaussianEvent(noise)


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=IDS)
def test_noise_and_rates_are_numbers(value):
    with pytest.raises(ParameterError, match="noise_multiplier"):
        GaussianEvent(value)
    with pytest.raises(ParameterError, match="sampling_rate"):
        PoissonSampledEvent(value, GAUSSIAN)


@pytest.mark.parametrize("epsilon", [0.0, -0.5, math.nan, math.inf, 1e301, 10**400, *NOT_NUMBERS])
@pytest.mark.parametrize("kind", [RandomizedResponseEvent, PureEvent])
def test_epsilon_of_a_response_out_of_range(kind, epsilon):
    """Infinite epsilon too: a public label is not an event."""
    with pytest.raises(ParameterError, match="epsilon"):
        kind(epsilon)


@pytest.mark.parametrize("rate", [-1e-9, 1.0000001, 1.7, math.nan, math.inf, -math.inf])
def test_sampling_rate_out_of_range(rate):
    with pytest.raises(ParameterError, match="sampling_rate must be a finite number >= 0 and <= 1; got"):
        PoissonSampledEvent(rate, GAUSSIAN)


@pytest.mark.parametrize("count", [-1, -5, 1.0, 2.5, math.nan, math.inf, True, None, "3", np.float64(2)])
def test_bad_counts(count):
    with pytest.raises(ParameterError, match="count"):
        RepeatedEvent(GAUSSIAN, count)


@pytest.mark.parametrize(
    "inner", [None, 1.0, "gaussian", {"kind": "gaussian", "noise_multiplier": 1.0}, GaussianEvent, (GAUSSIAN,)]
)
def test_inner_events_have_the_right_type(inner):
    with pytest.raises(ParameterError, match="event must be an Event"):
        RepeatedEvent(inner, 2)
    with pytest.raises(ParameterError, match="event must be an Event"):
        RepeatAndSelectEvent(inner, 2.0)
    with pytest.raises(ParameterError, match="event must be a GaussianEvent"):
        PoissonSampledEvent(0.5, inner)
    with pytest.raises(ParameterError, match="events must hold Event objects only"):
        ComposedEvent((GAUSSIAN, inner))


@pytest.mark.parametrize(
    "inner",
    [
        NonPrivateEvent(),
        RandomizedResponseEvent(1.0),
        PureEvent(1.0),
        RepeatedEvent(GAUSSIAN, 2),
        PoissonSampledEvent(0.5, GAUSSIAN),
    ],
)
def test_only_gaussian_releases_are_amplified(inner):
    with pytest.raises(ParameterError, match="amplification by sampling is accounted for no other"):
        PoissonSampledEvent(0.5, inner)


@pytest.mark.parametrize("events", [None, 3, GAUSSIAN])
def test_a_composition_is_a_tuple(events):
    with pytest.raises(ParameterError, match="events must be a tuple of Event objects"):
        ComposedEvent(events)


def test_good_values_are_kept_as_plain_numbers():
    event = RepeatedEvent(PoissonSampledEvent(np.float32(0.5), GaussianEvent(np.int64(2))), np.int64(3))
    assert type(event.count) is int
    assert type(event.event.sampling_rate) is float
    assert type(event.event.event.noise_multiplier) is float
    assert GaussianEvent(1) == GaussianEvent(1.0)
    assert hash(GaussianEvent(1)) == hash(GaussianEvent(1.0))
    assert GaussianEvent(math.inf).noise_multiplier == math.inf
    assert PoissonSampledEvent(0, GAUSSIAN).sampling_rate == 0.0
    assert PoissonSampledEvent(1, GAUSSIAN).sampling_rate == 1.0
    assert RepeatedEvent(GAUSSIAN, 0).count == 0


def test_a_composition_keeps_its_own_tuple():
    parts = [GAUSSIAN]
    event = ComposedEvent(parts)
    parts.append(NonPrivateEvent())
    assert event.events == (GAUSSIAN,)
    assert isinstance(event.events, tuple)


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
def test_round_trip(event):
    text = json.dumps(event.to_dict(), allow_nan=False)
    again = event_from_dict(json.loads(text))
    assert again == event
    assert json.dumps(again.to_dict(), allow_nan=False) == text


@given(EVENTS)
def test_events_cannot_be_changed(event):
    names = [field.name for field in dataclasses.fields(event)] + ["kind", "further"]
    for name in names:
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            setattr(event, name, 0.5)
    assert isinstance(hash(event), int)


STORED = {
    "gaussian": {"kind": "gaussian", "noise_multiplier": 2.0},
    "poisson-sampled": {
        "kind": "poisson-sampled",
        "sampling_rate": 0.5,
        "event": {"kind": "gaussian", "noise_multiplier": 2.0},
    },
    "randomized-response": {"kind": "randomized-response", "epsilon": 0.75},
    "pure": {"kind": "pure", "epsilon": 0.75},
    "repeated": {"kind": "repeated", "count": 2, "event": {"kind": "nothing"}},
    "composed": {"kind": "composed", "events": [{"kind": "non-private"}]},
    "repeat-and-select": {"kind": "repeat-and-select", "mean": 10.0, "event": {"kind": "nothing"}},
}


def test_the_stored_form_never_changes():
    """Old receipts must stay readable: a new meaning is a new kind."""
    assert event_from_dict(STORED["gaussian"]) == GaussianEvent(2.0)
    assert event_from_dict(STORED["poisson-sampled"]) == PoissonSampledEvent(0.5, GaussianEvent(2.0))
    assert event_from_dict(STORED["randomized-response"]) == RandomizedResponseEvent(0.75)
    assert event_from_dict(STORED["pure"]) == PureEvent(0.75)
    assert event_from_dict(STORED["repeated"]) == RepeatedEvent(NothingReleased(), 2)
    assert event_from_dict(STORED["composed"]) == ComposedEvent((NonPrivateEvent(),))
    assert event_from_dict(STORED["repeat-and-select"]) == RepeatAndSelectEvent(NothingReleased(), 10.0)
    assert event_from_dict({"kind": "gaussian", "noise_multiplier": "inf"}) == GaussianEvent(math.inf)
    assert GaussianEvent(math.inf).to_dict() == {"kind": "gaussian", "noise_multiplier": "inf"}  # JSON has no infinity
    for stored in STORED.values():
        assert event_from_dict(stored).to_dict() == stored


@pytest.mark.parametrize(
    ("kind", "key"), [(kind, key) for kind, stored in STORED.items() for key in stored if key != "kind"]
)
def test_missing_keys_are_named(kind, key):
    with pytest.raises(AccountingError, match=f"kind '{kind}' is incomplete: it has no '{key}'"):
        event_from_dict({name: value for name, value in STORED[kind].items() if name != key})


@pytest.mark.parametrize(
    "data",
    [
        None,
        3,
        "gaussian",
        [],
        {},
        {"kind": None},
        {"kind": []},
        {"kind": {"kind": "gaussian"}},
        {"kind": "Gaussian", "noise_multiplier": 1.0},
        {"kind": "laplace", "noise_multiplier": 1.0},
        {"kind": "objective-perturbation", "noise_multiplier": 2.0, "curvature_ratio": 0.1},  # was a kind once
        {"kind": "GaussianEvent", "noise_multiplier": 1.0},
        {"kind": "os.system"},
        {"noise_multiplier": 1.0},
    ],
)
def test_unknown_kinds_are_refused(data):
    known = (
        "bounded-range, composed, gaussian, non-private, nothing, poisson-sampled, pure, randomized-response, "
        "repeat-and-select, repeated"
    )
    with pytest.raises(AccountingError, match=rf"not an event of a known kind \({known}\)"):
        event_from_dict(data)
    with pytest.raises(AccountingError, match="not an event of a known kind"):
        event_from_dict({"kind": "composed", "events": [{"kind": "nothing"}, data]})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (STORED["gaussian"] | {"noise_multiplier": "2.0"}, "noise_multiplier"),
        (STORED["gaussian"] | {"noise_multiplier": -1}, "noise_multiplier"),
        (STORED["gaussian"] | {"noise_multiplier": 10**400}, "noise_multiplier"),
        (STORED["gaussian"] | {"noise_multiplier": "-inf"}, "noise_multiplier"),
        (STORED["gaussian"] | {"noise_multiplier": {}}, "noise_multiplier"),
        (STORED["poisson-sampled"] | {"sampling_rate": "inf"}, "sampling_rate"),
        (STORED["poisson-sampled"] | {"sampling_rate": True}, "sampling_rate"),
        (STORED["poisson-sampled"] | {"event": {"kind": "nothing"}}, "expected an event of kind 'gaussian'"),
        (STORED["poisson-sampled"] | {"event": 3}, "expected an event of kind 'gaussian'"),
        (STORED["randomized-response"] | {"epsilon": "inf"}, "epsilon"),
        (STORED["randomized-response"] | {"epsilon": -1.0}, "epsilon"),
        (STORED["repeated"] | {"count": 2.0}, "count"),
        (STORED["repeated"] | {"count": -2}, "count"),
        (STORED["repeated"] | {"count": "2"}, "count"),
        (STORED["repeated"] | {"event": None}, "not an event"),
        (STORED["composed"] | {"events": {"kind": "nothing"}}, "'events' of a composed event must be a list"),
        (STORED["composed"] | {"events": "abc"}, "'events' of a composed event must be a list"),
        (STORED["composed"] | {"events": ["nothing"]}, "not an event"),
        (STORED["repeat-and-select"] | {"mean": 0.5}, "mean must be a finite number >= 1"),
        (STORED["repeat-and-select"] | {"mean": "inf"}, "mean must be a finite number >= 1"),
        (STORED["repeat-and-select"] | {"event": "gaussian"}, "not an event"),
    ],
)
def test_wrong_values_are_refused(data, message):
    with pytest.raises((AccountingError, ParameterError), match=message):
        event_from_dict(data)


def test_bottomless_nesting_is_refused():
    data: dict = {"kind": "nothing"}
    for _ in range(5000):
        data = {"kind": "repeated", "count": 1, "event": data}
    with pytest.raises(AccountingError, match="nested too deeply"):
        event_from_dict(data)


JSON_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["gaussian", "composed", "repeated", "poisson-sampled", "nothing", "non-private", "inf", 10**400]),
)
KEYS = st.sampled_from(
    ["kind", "noise_multiplier", "curvature_ratio", "epsilon", "sampling_rate", "event", "events", "count", "other"]
)
JSON = st.recursive(
    JSON_LEAVES,
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


# --- helpers ----------------------------------------------------------------------------------------------------------


def test_compose_wraps_only_where_needed():
    nothing, other = NothingReleased(), GaussianEvent(2.0)
    assert compose() == nothing
    assert compose(nothing, nothing) == nothing
    assert compose(nothing, GAUSSIAN) is GAUSSIAN
    assert compose(GAUSSIAN, nothing, other) == ComposedEvent((GAUSSIAN, other))
    assert compose(GAUSSIAN, GAUSSIAN) == ComposedEvent((GAUSSIAN, GAUSSIAN))


def test_describe():
    step = PoissonSampledEvent(0.01, GaussianEvent(1.25))
    assert NothingReleased().describe() == "nothing"
    assert NonPrivateEvent().describe() == "a release without protection"
    assert GaussianEvent(1.25).describe() == "Gaussian release, noise multiplier 1.25"
    assert RandomizedResponseEvent(0.75).describe() == "randomised response of one bit, epsilon 0.75"
    assert PureEvent(0.75).describe() == "one release of pure differential privacy, epsilon 0.75"
    assert RepeatedEvent(step, 40).describe() == (
        "40 times: Gaussian release, noise multiplier 1.25, on a secret Poisson sample at rate 0.01"
    )
    assert ComposedEvent((GAUSSIAN, NonPrivateEvent())).describe() == (
        "Gaussian release, noise multiplier 1\na release without protection"
    )
    assert RepeatAndSelectEvent(GAUSSIAN, 4.0).describe() == (
        f"the best of a random, secret number of runs (geometric, mean 4), each:\n  {GAUSSIAN.describe()}"
    )


def test_describe_shows_what_a_repetition_covers():
    both = ComposedEvent((GAUSSIAN, GaussianEvent(2.0)))
    assert ComposedEvent((RepeatedEvent(both, 3), NothingReleased())).describe() == (
        "3 times all of:\n  Gaussian release, noise multiplier 1\n  Gaussian release, noise multiplier 2\nnothing"
    )


def test_outline_groups_what_describe_lists():
    """A schedule of noise has one line; nothing is left out of the count."""
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
