"""Machine code on disk: in a folder of its sources alone, in a place of ours alone, or nowhere."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import Mock

import numba
import pytest

from sottovoce import _compiling
from sottovoce._compiling import FOLDER, JIT, cache_folder, kernel_sources, njit
from sottovoce.central.kernels.passes import sdca_epoch

SOURCE = Path(_compiling.__file__).parent
MONTH = 31 * 24 * 3600.0


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a kernel, what it calls, and a file that has nothing to do with it."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    folder = tmp_path / "sottovoce"
    folder.mkdir()
    for needed in ("_compiling.py", "_lazy.py"):
        shutil.copy(SOURCE / needed, folder)
    (folder / "__init__.py").write_text("")
    (folder / "constants.py").write_text("ADDED = 0\n")
    (folder / "helper.py").write_text("from numba import njit\n\n@njit\ndef value():\n    return 1\n")
    (folder / "kernel.py").write_text(
        "from sottovoce._compiling import JIT, njit\nfrom sottovoce.constants import ADDED\n"
        "from sottovoce.helper import value\n\n@njit(**JIT)\ndef kernel():\n    return value() + ADDED\n"
    )
    (folder / "other.py").write_text("from sottovoce.kernel import kernel\n")
    return folder


def result_of_kernel(package, *bound, **places):
    """Run the kernel in a new process, from the package alone: what it returns, and whether it came from the disk."""
    program = "from sottovoce.kernel import kernel; print(kernel(), sum(kernel.stats.cache_hits.values()))"
    environment = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "PYTHONPATH")}
    environment |= places
    command = [*bound, sys.executable, "-c", f"import sys; sys.path.insert(0, {str(package.parent)!r}); {program}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return [int(word) for word in done.stdout.split()]


def test_an_edit_to_what_a_kernel_calls_is_seen(package):
    assert result_of_kernel(package) == [1, 0]
    assert result_of_kernel(package) == [1, 1]  # from the disk
    (package / "helper.py").write_text("from numba import njit\n\n@njit\ndef value():\n    return 2\n")
    assert result_of_kernel(package) == [2, 0]  # of other files the name of the folder tells, below


@pytest.mark.parametrize(("name", "changes"), [("helper", 1), ("kernel", 1), ("constants", 1), ("other", 0)])
def test_the_folder_is_named_by_all_sources_of_kernels(package, name, changes):
    before = cache_folder(package)
    assert before is not None
    assert before.parent == package / "__pycache__"
    assert cache_folder(package) == before
    with (package / f"{name}.py").open("a") as file:
        file.write("# more\n")
    assert (cache_folder(package) != before) == bool(changes)


def test_sources_of_the_package():
    found = {str(path.relative_to(SOURCE)) for path in kernel_sources()}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if re.search(r"@(numba\.)?(njit|jitted|intrinsic|overload\(|provides_)|import njit", text):
            assert str(path.relative_to(SOURCE)) in found
    assert "local/candidates.py" in found  # a kernel holds its constants
    assert "cli/app.py" not in found


def test_no_kernel_keeps_machine_code_elsewhere():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if re.search(r"cache=True|\*\*_JIT", text) and path.name != "_compiling.py":
            assert re.search(r"from sottovoce\.(_compiling import .*njit|_lazy import jitted)", text)
            assert "from numba import njit" not in text


def test_kernels_lie_in_the_folder_and_others_do_not():
    before = numba.config.CACHE_DIR
    made = njit(**JIT)(lambda: 1)
    assert before == numba.config.CACHE_DIR
    assert made() == 1
    assert FOLDER is not None
    for kernel in (sdca_epoch, made):
        assert Path(kernel.stats.cache_path).is_relative_to(FOLDER)
    assert not Path(numba.njit(cache=True)(lambda: 1).stats.cache_path).is_relative_to(FOLDER)


def test_numba_s_own_setting_goes_first(package, monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "set"))
    found = cache_folder(package)
    assert found is not None
    assert found.parent == tmp_path / "set"


class TestPlaces:
    """Places that cannot be written are played by files in their way: nobody makes a folder below a file."""

    @pytest.fixture(autouse=True)
    def blocked(self, package, monkeypatch, tmp_path):
        (package / "__pycache__").write_text("")
        (tmp_path / "file").write_text("")
        (tmp_path / "tmp").mkdir()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))

    @pytest.fixture
    def own(self, tmp_path):
        return tmp_path / "tmp" / f"sottovoce-kernels-{os.getuid()}"

    def test_the_user_s_cache(self, package, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        assert cache_folder(package).parent == tmp_path / "cache" / "numba"

    def test_temporary_files_of_ours_alone(self, package, own):
        assert cache_folder(package).parent == own
        assert own.stat().st_mode & 0o777 == 0o700
        assert cache_folder(package).parent == own

    @pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
    def test_a_folder_that_others_may_enter_is_not_used(self, package, own, mode):
        own.mkdir()
        own.chmod(mode)
        assert cache_folder(package) is None

    def test_a_folder_of_another_user_is_not_used(self, package, own, monkeypatch):
        own.mkdir(mode=0o700)
        monkeypatch.setattr(os, "getuid", lambda: own.stat().st_uid + 1)
        own.rename(own.with_name(f"sottovoce-kernels-{os.getuid()}"))
        own.mkdir()
        assert cache_folder(package) is None

    def test_a_link_is_not_used(self, package, own, tmp_path):
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        own.symlink_to(tmp_path / "elsewhere")
        assert cache_folder(package) is None
        assert not list((tmp_path / "elsewhere").iterdir())

    def test_nowhere(self, package, monkeypatch):
        monkeypatch.setattr(tempfile, "gettempdir", Mock(side_effect=FileNotFoundError))
        assert cache_folder(package) is None
        monkeypatch.setattr(_compiling, "FOLDER", None)
        made = njit(**JIT)(lambda: 1)
        assert made() == 1
        assert made.stats.cache_path is None

    def test_no_home(self, package, monkeypatch, own):
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError))
        assert cache_folder(package).parent == own


def test_without_sources_nothing_is_kept(tmp_path):
    assert cache_folder(tmp_path) is None


def test_folders_of_other_sources_go_when_nobody_used_them_for_a_month(package):
    present = cache_folder(package)
    old, recent, foreign = (present.with_name(name) for name in ("sottovoce-" + "0" * 16, "sottovoce-" + "1" * 16, "x"))
    for folder in (old, recent, foreign):
        folder.mkdir()
        (folder / "kernel.nbi").write_text("")
    for folder in (old, foreign, present):
        os.utime(folder, (time.time() - MONTH, time.time() - MONTH))
    assert cache_folder(package) == present
    assert not old.exists()
    assert recent.exists()
    assert foreign.exists()


# As root, permissions bind nobody: then without the rights to pass them over.
BOUND = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.getuid() == 0 else ()


def permissions_bind(place):
    try:
        done = subprocess.run([*BOUND, "touch", str(place / "new")], capture_output=True, check=False)
    except FileNotFoundError:  # no setpriv
        return False
    return done.returncode != 0


@pytest.mark.parametrize(
    ("place", "compiled"),
    [("XDG_CACHE_HOME", 1), ("TMPDIR", 0),
     *(pytest.param(place, 1, marks=pytest.mark.slow) for place in ("NUMBA_CACHE_DIR", "TMPDIR"))],
)  # fmt: skip
def test_what_the_installer_compiled_is_copied_by_those_who_cannot_write_there(package, tmp_path, place, compiled):
    _compiling.plain_times(package)
    assert all(path.stat().st_mtime.is_integer() for path in kernel_sources(package))
    assert not compiled or result_of_kernel(package) == [1, 0]
    made = cache_folder(package)
    folders = [package, *(path for path in package.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        if not permissions_bind(package):
            pytest.skip("no permission binds this user, and there is no setpriv")
        (tmp_path / "own").mkdir()
        places = {name: str(package / "no") for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
        places |= {"TMPDIR": str(tmp_path), place: str(tmp_path / "own")}
        assert result_of_kernel(package, *BOUND, **places) == [1, compiled]
        (found,) = (tmp_path / "own").rglob(made.name)
        assert {file.name for file in found.rglob("*")} >= {file.name for file in made.rglob("*")}
        assert list(found.rglob("*.nbc"))
    finally:
        for folder in folders:
            folder.chmod(0o755)
