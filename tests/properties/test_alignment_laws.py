"""Laws of alignment: equal to sets by brute force, PSI equal to exact, rows of one party are its own matter."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.exceptions import DataError
from sottovoce.vertical import InProcessParties, Party
from sottovoce.vertical.alignment import align_over, common_rows

WORDS = [
    "",
    " ",
    "0",
    "00",
    "17",
    "017",
    "17.0",
    "a",
    "A",
    "nan",
    "None",
    "\u00e9",
    "e\u0301",
    "\U0001f600",
    "\uffff",
    "\0",
]


def forms(text):
    """Return the objects that mean the identifier ``text``."""
    out = [text, text.encode()]
    if not text.endswith("\0"):  # numpy drops it
        out.append(np.str_(text))
    if text.isascii() and text.isdigit() and text == str(int(text)):
        out += [int(text), float(text), np.int64(text), np.float32(text)]
    return out


MISSING = [None, float("nan"), pd.NA, pd.NaT, "", b""]
an_identifier = st.one_of(
    st.sampled_from([word for word in WORDS if word]), st.integers(0, 30).map(str), st.text(max_size=2)
)
a_cell = st.one_of(
    an_identifier.flatmap(lambda text: st.tuples(st.just(text), st.sampled_from(forms(text)))),
    st.sampled_from(MISSING).map(lambda value: ("", value)),
)
a_column = st.lists(a_cell, max_size=40)


def by_brute_force(columns):
    """Return the rows of each party for the sorted identifiers that stand in exactly one row of every party."""
    counts = [Counter(text for text, _ in column) for column in columns]
    common = sorted(text for text in counts[0] if text and all(count[text] == 1 for count in counts))
    return [[[text for text, _ in column].index(wanted) for wanted in common] for column in columns]


def aligned(columns):
    """Return the rows of each party and the report, None if nobody is in common."""
    parties = {f"party {k}": [value for _, value in column] for k, column in enumerate(columns)}
    try:
        return common_rows(parties, duplicates="drop")
    except DataError as error:
        assert str(error).startswith("nobody is in common")
        return None


def check_against_brute_force(columns):
    expected = by_brute_force(columns)
    alignment = aligned(columns)
    if alignment is None:
        assert expected[0] == []
        return
    rows, report = alignment
    assert [each.tolist() for each in rows.values()] == expected
    for column, counts in zip(columns, report.parties, strict=True):
        uses = Counter(text for text, _ in column)
        assert counts.rows == len(column)
        assert counts.missing == uses[""]
        assert counts.repeated == sum(use for text, use in uses.items() if text and use > 1)
        assert counts.rows == counts.missing + counts.repeated + counts.not_in_common + report.n_common


@given(st.lists(a_column, min_size=2, max_size=4))
@settings(max_examples=80)
def test_equal_to_brute_force(columns):
    check_against_brute_force(columns)


@given(a_column, st.integers(2, 4), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_equal_to_brute_force_when_most_are_in_common(column, n_parties, random):
    columns = [random.sample(column, random.randint(2 * len(column) // 3, len(column))) for _ in range(n_parties)]
    check_against_brute_force(columns)


def test_psi_is_equal_to_exact():
    pytest.importorskip("private_set_intersection", reason="openmined-psi (extra [vertical]) is not installed")

    @given(a_column, st.lists(a_column, min_size=2, max_size=4), st.randoms(use_true_random=False))
    @settings(max_examples=15)
    def law(shared, own, random):
        columns = [random.sample(shared, len(shared)) + column + [("", None)] for column in own]
        parties = [
            Party(np.arange(len(column), dtype=float)[:, None], [value for _, value in column], name=f"party {k}")
            for k, column in enumerate(columns)
        ]
        exact = aligned(columns)
        if exact is None:
            with pytest.raises(DataError, match="nobody is in common"):
                align_over(InProcessParties(parties))
            return
        report = align_over(InProcessParties(parties))
        rows, told = exact
        assert report.n_common == told.n_common
        assert report.parties == told.parties[:1]
        for party in parties:
            np.testing.assert_array_equal(rows[party.name], party._table[:, 0])

    law()
