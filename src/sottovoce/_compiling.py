"""What every kernel is compiled with, and where its machine code is kept on disk.

numba asks of machine code on disk only whether the kernel's own file is still the same. What a kernel calls or reads
stands in other files too: after an edit there, numba would run what was compiled before. So the code is kept in a
folder that is named by a hash of all these files and of numba's version. Other sources have another folder.

The folder lies where numba would put it: in ``NUMBA_CACHE_DIR``, beside the package or in the user's cache. Where none
of these can be written, it lies in a temporary folder that belongs to the user alone, since loading machine code runs
it. Where that cannot be had either, kernels are compiled in each process again. All of it is decided once, before the
first kernel is made.

Whoever installs the package can compile (``sottovoce compile``) for those who cannot write beside it: what lies there
is copied to the place that they can write, since numba reads from no other. It is trusted like the package itself.
"""

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numba

from sottovoce._lazy import without_collector

_SETTINGS: Final[Any] = numba.config
_PACKAGE: Final = Path(__file__).parent
_UNUSED: Final = 30 * 24 * 3600.0  # seconds until the folder of other sources is removed
_WITH_NUMBA: Final = re.compile(r"^(from|import) (numba|sottovoce\.(_compiling|losses\.base|_lazy import jit))", re.M)
_IMPORT: Final = re.compile(r"^from (sottovoce[.\w]*) import (\([^)]*\)|.*)$", re.MULTILINE)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile as `numba.njit` does; with ``cache=True`` the machine code is kept in `FOLDER`."""
    if FOLDER is None:
        options = {**options, "cache": False}

    def compiled(function: Callable[..., Any]) -> Any:
        before = _SETTINGS.CACHE_DIR
        _SETTINGS.CACHE_DIR = str(FOLDER)  # read while a kernel is made, never later
        try:
            kernel = numba.njit(**options)(function)
        finally:
            _SETTINGS.CACHE_DIR = before
        kernel.compile = without_collector()(kernel.compile)
        return kernel

    return compiled


def kernel_sources(package: Path = _PACKAGE) -> dict[Path, str]:
    """Return the files of ``package`` that can end in machine code: those with numba, and what they import."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"), key=str)}
    with_numba = {path for path, text in texts.items() if _WITH_NUMBA.search(text)}
    kept = with_numba | {path for file in with_numba for path in _imports(texts[file], package)}
    return {path: text for path, text in texts.items() if path in kept}


def _imports(text: str, package: Path) -> Iterator[Path]:
    for module, names in _IMPORT.findall(text):
        place = package.joinpath(*module.split(".")[1:])
        yield from (place.with_suffix(".py"), place / "__init__.py")
        yield from (place / f"{name}.py" for name in re.findall(r"\w+", names))


def cache_folder(package: Path = _PACKAGE) -> Path | None:
    """Return the folder for machine code of the present sources, made and writable; None if there can be none."""
    sources = kernel_sources(package)
    if not sources:  # an archive or a package without sources: nothing tells old machine code from new
        return None
    content = hashlib.sha256(numba.__version__.encode())
    for path, text in sources.items():
        content.update(f"{path.relative_to(package)} {len(text)}\n{text}".encode())
    name = f"sottovoce-{content.hexdigest()[:16]}"
    for root, shared in _roots(package):
        if shared and not _belongs_to_us_alone(root):
            continue
        _copy_of_installed(package / "__pycache__" / name, root)
        if _writable(root / name):
            _remove_unused(root)
            return root / name
    return None


def _roots(package: Path) -> Iterator[tuple[Path, bool]]:
    """Yield where the folder may lie, the best first, and whether that is a place that others can write to."""
    if _SETTINGS.CACHE_DIR:
        yield Path(_SETTINGS.CACHE_DIR).absolute(), False
    yield package / "__pycache__", False
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba", False
    with suppress(FileNotFoundError, AttributeError):  # no temporary file can be written; a system without user numbers
        yield Path(tempfile.gettempdir()) / f"sottovoce-kernels-{os.getuid()}", True


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            os.utime(folder)  # in use today
    except OSError:
        return False
    return True


def _copy_of_installed(made: Path, root: Path) -> None:
    """Copy the machine code beside the package to ``root``, whole or not at all."""
    if (root / made.name).exists() or not made.is_dir():
        return
    with suppress(OSError):
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root) as place:
            copy = Path(place) / made.name
            for file in made.rglob("*.nb[ci]"):
                to = copy / file.relative_to(made)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, to)
            copy.rename(root / made.name)


def plain_times(package: Path = _PACKAGE) -> None:
    """Round the times of the sources to seconds: numba compares them, and layers of images keep no fractions."""
    for path in kernel_sources(package):
        found = path.stat()
        with suppress(OSError):
            os.utime(path, (found.st_atime, int(found.st_mtime)))


def _belongs_to_us_alone(folder: Path) -> bool:
    """Anyone may put a folder or a link of that name among temporary files."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o700


def _remove_unused(root: Path) -> None:
    for folder in root.glob("sottovoce-" + "[0-9a-f]" * 16):
        try:
            unused = time.time() - folder.stat().st_mtime > _UNUSED
        except OSError:  # another process has just removed it
            continue
        if unused:
            shutil.rmtree(folder, ignore_errors=True)


FOLDER: Final = cache_folder()

# for what kernels alone call: no door for Python, which would take a tenth of the time to compile, and no counting of
# references, which takes longer than the work on a few short rows, more so where threads count the same ones
INSIDE: Final[Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
# for all kernels: no interpreter lock, machine code kept on disk, floating point without branches at each division
JIT: Final[Any] = {"nogil": True, "cache": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
ALLOCATING: Final[Any] = {**JIT, "_nrt": True}  # for kernels that make arrays
