"""The reader of GISETTE, on tiny files of the same formats."""

import bz2

import numpy as np
from sklearn.datasets import dump_svmlight_file

from benchmarks.vertical.data import gisette, wide_set


def test_gisette_of_the_libsvm_page_is_read(tmp_path):
    assert gisette(tmp_path) is None
    X, y = np.round(np.random.default_rng(1).uniform(-1, 1, (4, 5000)), 3), np.array([1.0, -1.0, -1.0, 1.0])
    for name, part in (("gisette_scale", slice(0, 3)), ("gisette_scale.t", slice(3, 4))):
        dump_svmlight_file(X[part], y[part], str(tmp_path / "plain"), zero_based=False)
        (tmp_path / f"{name}.bz2").write_bytes(bz2.compress((tmp_path / "plain").read_bytes()))
    found = gisette(tmp_path)
    np.testing.assert_allclose(found.X, X[:3])
    np.testing.assert_array_equal(found.y, y[:3])
    assert found.X_test.shape == (1, 5000)
    np.testing.assert_array_equal(found.y_test, y[3:])
    # the wide set of the vertical benchmarks is then GISETTE itself, at three parties
    parties = wide_set(tmp_path)
    np.testing.assert_array_equal(parties.y, y[:3])
    assert [block.shape for block in parties.blocks()] == [(3, 2000), (3, 2000), (3, 1000)]


def test_gisette_of_the_uci_repository_is_read_and_moved_to_its_range(tmp_path):
    home = tmp_path / "gisette"
    home.mkdir()
    X, y = np.random.default_rng(2).integers(0, 1000, (3, 6)), [1, -1, 1]
    for part, rows in (("train", slice(0, 2)), ("valid", slice(2, 3))):
        (home / f"gisette_{part}.data").write_text("\n".join(" ".join(map(str, row)) + " " for row in X[rows]) + "\n")
        (home / f"gisette_{part}.labels").write_text("\n".join(map(str, y[rows])) + "\n")
    found = gisette(tmp_path)
    np.testing.assert_allclose(found.X, X[:2] / 499.5 - 1.0)
    np.testing.assert_array_equal(found.y, [1.0, -1.0])
    np.testing.assert_allclose(found.X_test, X[2:] / 499.5 - 1.0)
    np.testing.assert_array_equal(found.y_test, [1.0])
