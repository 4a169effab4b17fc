"""Files are written whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

import sottovoce as sv
from sottovoce import _files
from sottovoce._files import check_writable, write_whole
from sottovoce.estimators.persistence import load_model
from sottovoce.exceptions import ParameterError, SottovoceError
from sottovoce.tables import Schema, read_table
from support.receipts import fitted


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, "one\n")
    write_whole(path, "zwei é\n")
    assert path.read_bytes() == "zwei é\n".encode()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_permissions_follow_the_umask_and_then_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    old = os.umask(0o027)
    try:
        write_whole(path, "one")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o600)
    write_whole(path, "two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_followed(tmp_path: Path) -> None:
    target = tmp_path / "real.json"
    target.write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_path_is_checked_before_work(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    check_writable("--out", path, overwrite=False)
    assert list(tmp_path.iterdir()) == []
    path.write_text("old")
    check_writable("--out", path, overwrite=True)
    with pytest.raises(ParameterError, match=r"--out .*a\.json: the file exists\. .*overwrite=True"):
        check_writable("--out", path, overwrite=False)
    with pytest.raises(ParameterError, match=r"--out .*b\.json: the folder .*nowhere does not exist"):
        check_writable("--out", tmp_path / "nowhere" / "b.json", overwrite=True)
    with pytest.raises(ParameterError, match=r"this is not a regular file"):
        check_writable("--out", tmp_path, overwrite=True)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ParameterError, match=r"--out .*loop: this is not a regular file"):
        check_writable("--out", tmp_path / "loop", overwrite=True)
    with pytest.raises(ParameterError, match=r"--out /dev/null: this is not a regular file"):
        check_writable("--out", "/dev/null", overwrite=True)
    with pytest.raises(ParameterError, match=r"--out /proc/x\.json: cannot write there"):
        check_writable("--out", "/proc/x.json", overwrite=True)


@pytest.mark.parametrize("write", ["text", "private text", "model", "export", "check"])
def test_a_ledger_is_never_replaced_whoever_writes(tmp_path: Path, write: str) -> None:
    path, ledger = tmp_path / "budget.db", sv.Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    ledger.create("people", epsilon=1.0, delta=1e-6)
    with pytest.raises(ParameterError if write == "check" else OSError, match="SQLite database, such as a ledger"):
        match write:
            case "text" | "private text":
                write_whole(path, "{}", private=write == "private text")
            case "model":
                sv.save_model(fitted("ridge scd"), path)
            case "export":
                ledger.export(path)
            case "check":
                check_writable("--out", path, overwrite=True)
    assert ledger.verify().ok and [entry.name for entry in tmp_path.iterdir()] == ["budget.db"]


@pytest.mark.parametrize("path", ["~", "~/", "~/none", "~/none/a.json", "~/none/~/a.json", "./~/a.json", "none/~"])
def test_a_tilde_that_no_shell_has_replaced_is_told(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In files to write and in each kind of file to read; and only where it stands for somebody's own folder."""
    monkeypatch.setenv("HOME", "/home/anna")
    monkeypatch.chdir(tmp_path)
    model, table, schema = (f"{path.rstrip('/')}/b{ending}" for ending in (".json", ".csv", ".toml"))
    for way, name in (
        (lambda: check_writable("--out", model, overwrite=False), model),
        (lambda: load_model(model), model),
        (lambda: read_table(table), table),
        (lambda: Schema.from_toml(schema), schema),
    ):
        with pytest.raises(SottovoceError) as caught:
            way()
        assert (f"write /home/anna{name[1:]}." in str(caught.value)) == path.startswith("~"), str(caught.value)
