"""What the `reproduce` modules of the four papers share."""

from sottovoce.papers import showing
from support.data import VARIABLE


def test_a_table_is_aligned(capsys):
    showing.show("Title", ("a", "long head"), [("value", 1), ("b", 22)])
    assert capsys.readouterr().out == "\nTitle\n  a      long head\n  value  1\n  b      22\n"


def test_files_are_read_only_where_all_are_there(tmp_path, monkeypatch):
    for name, label in (("one", 1), ("two", -1)):
        (tmp_path / name).write_text(f"{label} 1:0.5 3:2\n", encoding="utf-8")
    monkeypatch.delenv(VARIABLE, raising=False)
    assert showing.libsvm("one", width=3) is None
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert showing.libsvm("one", "three", width=3) is None
    X, y = showing.libsvm("one", "two", width=3)
    assert X.tolist() == [[0.5, 0.0, 2.0]] * 2
    assert y.tolist() == [1.0, -1.0]
