"""Readers of the papers' own data sets, on tiny files of the same formats."""

import bz2
import zipfile

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from benchmarks.papers.dp_scd import appendix_e
from benchmarks.papers_data import gisette, has_year_prediction, msd_made_up, year_prediction
from benchmarks.vertical.data import wide_set
from support.data import VARIABLE


def _years(n, rng):
    return np.column_stack([rng.integers(1922, 2012, n), np.round(rng.normal(40, 20, (n, 90)), 5)])


YEARS = _years(7, np.random.default_rng(0))
TEXT = "\n".join(",".join(f"{value:g}" if k else f"{value:.0f}" for k, value in enumerate(row)) for row in YEARS)


def _text(folder):
    (folder / "YearPredictionMSD.txt").write_text(TEXT)


def _bz2(folder):
    (folder / "YearPredictionMSD.txt.bz2").write_bytes(bz2.compress(TEXT.encode()))


def _zip(folder):
    with zipfile.ZipFile(folder / "yearpredictionmsd.zip", "w") as archive:
        archive.writestr("YearPredictionMSD.txt", TEXT)


def _libsvm(folder):
    for name, rows in (("", YEARS[:5]), (".t", YEARS[5:])):
        dump_svmlight_file(rows[:, 1:], rows[:, 0], str(folder / "plain"), zero_based=False)
        (folder / f"YearPredictionMSD{name}.bz2").write_bytes(bz2.compress((folder / "plain").read_bytes()))


@pytest.mark.parametrize("write", [_text, _bz2, _zip, _libsvm])
def test_every_form_of_year_prediction_is_read(write, tmp_path):
    assert not has_year_prediction(tmp_path)
    assert year_prediction(tmp_path) is None
    write(tmp_path)
    assert has_year_prediction(tmp_path)
    X, y, X_test, y_test = year_prediction(tmp_path, training=5)
    np.testing.assert_allclose(X, YEARS[:5, 1:], rtol=1e-4)
    np.testing.assert_array_equal(y, YEARS[:5, 0])
    np.testing.assert_allclose(X_test, YEARS[5:, 1:], rtol=1e-4)
    np.testing.assert_array_equal(y_test, YEARS[5:, 0])


def test_a_download_that_broke_off_is_refused_in_words(tmp_path):
    _text(tmp_path)
    with pytest.raises(ValueError, match=r"91 columns and more than 463715 rows; got 91 columns and 7 rows\. Is the"):
        year_prediction(tmp_path)


def test_the_figures_take_year_prediction_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert appendix_e.figure_problems() == ("phishing", "adult", "blogfeedback")
    _text(tmp_path)
    assert appendix_e.figure_problems() == ("phishing", "adult", "msd")


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


def test_the_made_up_table_has_the_scales_of_its_sample(tmp_path):
    sample = tmp_path / "sample.csv.bz2"
    rng = np.random.default_rng(3)
    table = np.column_stack([rng.integers(1922, 2012, 200), rng.normal(5, 20, (200, 90))])
    np.savetxt(sample, table, delimiter=",", fmt="%.4f")
    made = msd_made_up(sample, rows=4000, test=100)
    assert made.X.shape == (4000, 90) and made.X_test.shape == (100, 90)
    np.testing.assert_allclose(made.X.mean(axis=0), table[:, 1:].mean(axis=0), atol=2.0)
    np.testing.assert_allclose(made.y.std(), table[:, 0].std() * (1 + 0.09) ** 0.5, rtol=0.05)
    assert not np.array_equal(made.X[:100], made.X_test)
