"""Rows that are shortened to their public bound, whatever they hold."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.vertical.table.columns import bounded_pieces

wild = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(wild, min_size=1, max_size=40), st.floats(1e-300, 1e300), st.booleans())
def test_a_bounded_row_is_at_most_1_long_and_keeps_its_signs(row, data_norm, sparse):
    table = np.array([row])
    ((_, bounded),) = bounded_pieces(sp.csr_array(table) if sparse else table, data_norm)
    assert np.linalg.norm(bounded) <= 1.0 + 1e-14
    assert np.all(bounded * np.sign(table) >= 0.0)
    if np.abs(table).max() <= data_norm / len(row):
        np.testing.assert_array_equal(bounded, table / data_norm)


def test_two_entries_in_one_place_count_as_their_sum():
    twice = sp.csr_array((np.array([0.7, 0.7]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    ((_, bounded),) = bounded_pieces(twice, 1.0)
    assert bounded.tolist() == [[1.0]]
