"""For every test: repeatable examples of hypothesis, real data where there are some, no noise, a PostgreSQL server."""

import gc
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # one worker a processor: threads of BLAS would only get in their way
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if hasattr(os, "fork"):
        from support.compile_once import compile_once

        compile_once()

import pytest
from hypothesis import settings

from sottovoce import randomness
from sottovoce._optional import loaded
from support.data import data_folder, why_without
from support.noise import forbid_noise
from support.postgres import PostgresServer, running_server, why_not

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

MARKED = {Path(__file__).parent / folder: mark for folder, mark in (("federation", "federation"), ("cluster", "slow"))}
_numbers = itertools.count(1)
gc.disable()  # what is collected now stays to the end


def pytest_collection_finish() -> None:
    """Leave fifteen thousand tests and their libraries out of what the collector walks over while they run."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a folder of which nothing would run: to import it takes seconds of each worker."""
    mark = MARKED.get(collection_path) or "no mark"
    return True if f"not {mark}" in config.option.markexpr else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in a folder of slow tests, and what needs real data, so that ``-m real_data`` runs just that."""
    for item in items:
        if item.path.parent in MARKED:
            item.add_marker(MARKED[item.path.parent])
        if "real_data" in getattr(item, "fixturenames", ()):
            item.add_marker("real_data")


@pytest.fixture(scope="session")
def real_data() -> Callable[..., Path]:
    """Return the folder of real data for the files that a test names; skips where one of them is not there."""

    def folder_with(*files: str) -> Path:
        reason = why_without(*files)
        if reason is not None:
            pytest.skip(reason)
        folder = data_folder()
        assert folder is not None
        return folder

    return folder_with


@pytest.fixture(autouse=True)
def seeds_and_tables_of_this_test_alone() -> None:
    """Forget seeds and tables of other tests: what a run says must not depend on what ran before it."""
    randomness._SEEDS_OF_NOISE.clear()
    repeats = loaded("sottovoce.estimators._callers")
    if repeats is not None:
        repeats.forget()


@pytest.fixture
def noise_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every opening of noise fail the test, of any mechanism: what is refused must be refused before it."""
    forbid_noise(monkeypatch)


@pytest.fixture(scope="module")
def coarse_losses() -> Iterator[None]:
    """Account for sampled steps on a grid of 1e-3, rounded up as ever: their noise is found in a tenth of the time."""
    from sottovoce.central.sums.samples import sampled_noise
    from sottovoce.estimators.base import _planned
    from sottovoce.privacy.accounting import PLDAccountant

    step, known = PLDAccountant._step, (_planned, sampled_noise)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PLDAccountant, "_step", lambda self, counts: max(step(self, counts), self._grid or 1e-3))
        for each in known:
            each.cache_clear()
        yield
    for each in known:
        each.cache_clear()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A real server for the whole run of this process; skips where none is installed."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """The address of a new, empty database."""
    return postgres_server.make_database(f"test{next(_numbers)}")
