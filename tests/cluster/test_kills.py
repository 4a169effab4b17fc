"""Workers are killed at random moments, some fifty of them; a thousand are killed by the benchmark."""

import sys

import pytest

from benchmarks.cluster import kills

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="whoever is left is ended by Linux")]


def test_same_model_and_no_double_count_whoever_is_killed() -> None:
    found = kills.until_killed(50)
    assert found["killed"] >= 50
    assert found["double counts"] == 0
    assert found["same"] == found["fits"] > 0
    assert found["twice"] > 0 and found["late"] > 0 and found["hung"] > 0 and found["deaf"] > 0
