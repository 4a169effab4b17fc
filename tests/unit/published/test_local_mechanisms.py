"""A protocol's text tells its mechanism."""

import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.local import Protocol, Randomizer
from sottovoce.published.bernstein import BernsteinProtocol, BernsteinRandomizer
from sottovoce.published.local_mechanisms import randomizer_for, read_protocol


@pytest.mark.parametrize(
    ("protocol", "randomizer"),
    [
        (Protocol(epsilon=1.0, n_features=2), Randomizer),
        (BernsteinProtocol("hinge", 2, 4.0, 1e-6), BernsteinRandomizer),
    ],
    ids=["cap", "bernstein"],
)
def test_each_mechanism(protocol, randomizer):
    again = read_protocol(protocol.to_json())
    assert again == protocol
    device = randomizer_for(again)
    assert type(device) is randomizer
    assert protocol.id in device.report([0.1, 0.2], 1)
    with pytest.raises(ParameterError, match=r"more than max_epsilon.* no report is made"):
        randomizer_for(again, max_epsilon=0.5)


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"mechanism":"bernstein"}', '{"mechanism":"other"}'])
def test_other_texts(text):
    with pytest.raises(ParameterError):
        read_protocol(text)
