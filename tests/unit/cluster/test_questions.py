"""Digests follow what a value says: any other number, word, type or shape gives another one."""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sottovoce.cluster.digest import question_digest
from sottovoce.losses import Logistic, SmoothedHinge


@dataclass(frozen=True)
class Plain:
    a: Any
    b: Any = 0


DIFFERENT: list[object] = [
    None, True, 1, 1.0, "1", b"1", (), (1,), [1], (1, 2), ((1,), 2), (1, (2,)), {"a": 1}, {"a": 2}, np.float64,
    np.ones(2), np.ones(2, np.float32), np.ones((2, 1)), np.zeros(2), -0.0, 0.0, float("nan"), Logistic(),
    SmoothedHinge(0.5), SmoothedHinge(0.25), Plain(1), Plain(1, 1), Plain((1, 0)),
]  # fmt: skip


def test_other_values_have_other_digests() -> None:
    assert len({question_digest(value) for value in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize("value", DIFFERENT, ids=repr)
def test_a_copy_has_the_same_digest(value: object) -> None:
    assert question_digest(pickle.loads(pickle.dumps(value))) == question_digest(value)


def test_the_layout_in_memory_does_not_count() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    assert question_digest(matrix) == question_digest(np.asfortranarray(matrix))


@pytest.mark.parametrize("value", [object(), lambda: 0, np.array([None])], ids=["object", "function", "array"])
def test_what_has_no_plain_value_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="there is no digest of"):
        question_digest(value)
