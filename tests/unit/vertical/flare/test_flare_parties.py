"""Parties over a carrier: the same results as in one process, and an error in words for whatever the carrier does."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sottovoce.exceptions import PartyError
from sottovoce.vertical import Party, VerticalLogisticRegression, split_columns
from sottovoce.vertical.flare import parties as module
from sottovoce.vertical.flare.parties import FlareParties
from sottovoce.vertical.flare.runs import Progress
from sottovoce.vertical.requests.general import Describe, Description
from sottovoce.vertical.requests.secure import Invite
from sottovoce.vertical.wire import Payload


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.01)
    monkeypatch.setattr(module, "_GRACE", 0.1)


def _three() -> tuple[list[Party], Any]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 6))
    y = np.where(X.sum(axis=1) + rng.normal(size=80) > 0, 1, 0)
    return list(split_columns(X, [2, 2, 2]).parties.values()), y


def _over(parties: list[Party], call: Callable[..., object] | None = None, **more: Any) -> FlareParties:
    by_name = {party.name: party for party in parties}

    def honest(name: str, raw: bytes, seconds: float) -> object:
        return by_name[name].handle(raw)

    return FlareParties(parties[0], [party.name for party in parties[1:]], call or honest, **more)


def test_a_model_over_a_carrier_is_that_of_one_process_bit_for_bit() -> None:
    """The order of the parties, and with it every sum, is the same."""
    inside, y = _three()
    outside, _ = _three()
    progress = Progress(None, [party.name for party in outside])
    over = _over(outside, progress=progress)
    expected = VerticalLogisticRegression(epsilon=np.inf).fit(inside, y)
    got = VerticalLogisticRegression(epsilon=np.inf).fit(over, y)
    np.testing.assert_array_equal(expected.decision_function(inside), got.decision_function(over))
    assert got.n_rounds_ == expected.n_rounds_
    assert got.uplink_bytes_ == expected.uplink_bytes_
    assert list(got.parts_) == [outside[0].name]
    with pytest.raises(PartyError, match="does not live where"):
        over.own(outside[1].name)
    for mine, theirs in zip(inside, outside, strict=True):
        np.testing.assert_array_equal(mine.parts[expected.model_].coef, theirs.parts[got.model_].coef)
    progress.phase("done")
    told = progress.told()
    assert told["bytes_up"] == over.uplink_bytes == sum(each["bytes_up"] for each in told["parties"].values())
    assert told["bytes_down"] == over.downlink_bytes
    assert all(each["last_heard"] and each["waiting_since"] is None for each in told["parties"].values())


def _failing(error: Exception) -> Callable[..., object]:
    def call(name: str, raw: bytes, seconds: float) -> object:
        raise error

    return call


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (_failing(ConnectionError()), "'party2' could not be reached when it was asked Describe"),
        (_failing(TimeoutError()), "'party2' gave no answer to Describe within 0.2 s"),
        (_failing(ValueError("a secret")), r"'party2' could not be reached .* \(ValueError\)"),
        (lambda name, raw, seconds: "text", "'party2' answered Describe with str, not with bytes"),
        (lambda name, raw, seconds: b"SVM3" + bytes(40), "'party2' answered Describe with no Description"),
        (lambda name, raw, seconds: time.sleep(0.6), "'party2' gave no answer to Describe within 0.2 s"),
    ],
)
def test_whatever_a_carrier_does_is_an_error_that_names_the_party(call: Callable[..., object], words: str) -> None:
    """What it was asked too, and never what the error said: that came from elsewhere."""
    parties, _ = _three()
    over = FlareParties(parties[0], ["party2"], call, timeout=0.2)
    began = time.monotonic()
    with pytest.raises(PartyError, match=words) as caught:
        over.exchange(Describe(), Description)
    assert "secret" not in str(caught.value)
    assert time.monotonic() - began < 2.0


def test_an_answer_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused by its length."""
    monkeypatch.setattr(module, "MOST_ANSWER_BYTES", 10)
    parties, _ = _three()
    with pytest.raises(PartyError, match="'party2' answered Describe with 11 bytes; at most 10"):
        FlareParties(parties[0], ["party2"], lambda *_: bytes(11)).exchange(Describe(), Description)


def test_a_line_that_breaks_once_is_tried_once_more_with_the_same_bytes() -> None:
    """The party answers a step once, however often it is asked."""
    parties, _ = _three()
    seen: list[bytes] = []

    def shaky(name: str, raw: bytes, seconds: float) -> object:
        seen.append(raw)
        if len(seen) % 2:
            raise ConnectionError
        return parties[1].handle(raw)

    over = FlareParties(parties[0], [parties[1].name], shaky)
    for _ in range(2):
        over.exchange(Describe(), Description)
    assert len(seen) == 4
    assert seen[::2] == seen[1::2]


def test_parties_work_at_the_same_time_and_the_one_at_home_too() -> None:
    """A round takes as long as its slowest party."""
    parties, _ = _three()
    together = threading.Barrier(3)
    home = parties[0]
    handle = home.handle

    class _Home:
        name = home.name

        def handle(self, raw: bytes) -> bytes:
            together.wait(5)
            return handle(raw)

    def call(name: str, raw: bytes, seconds: float) -> object:
        together.wait(5)
        return {party.name: party for party in parties}[name].handle(raw)

    over = FlareParties(_Home(), [party.name for party in parties[1:]], call)
    assert set(over.exchange(Describe(), Description)) == set(over.names)


def test_nobody_waits_long_for_a_farewell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A party that hung in the training hangs at its end too: it is not given its whole time again."""
    monkeypatch.setattr(module, "_FAREWELL", 0.1)
    parties, _ = _three()
    by_name = {party.name: party for party in parties}
    asked: list[str] = []

    def call(name: str, raw: bytes, seconds: float) -> object:
        if name == "party3":
            asked.append(module._asked(raw))
            time.sleep(seconds)
            raise TimeoutError
        return by_name[name].handle(raw)

    over = _over(parties, call, timeout=1.0)
    began = time.monotonic()
    with pytest.raises(PartyError, match="'party3' gave no answer to Invite"), over.session() as session:
        session.exchange(Invite("plan"), Payload)
    assert asked[-1] == "Close"
    assert time.monotonic() - began < 1.8
