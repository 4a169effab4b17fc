"""A driver that goes on with the log of one that died: the same model, and nothing is released twice."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.cluster.log import Log
from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.report import verify_receipt
from support.parts_pool import PartsPool
from support.pooled_table import PooledTable

pytestmark = pytest.mark.filterwarnings(
    "ignore:this table was fitted privately before:sottovoce.exceptions.PrivacyWarning"
)

_RNG = np.random.default_rng(5)
_X = _RNG.standard_normal((90, 3))
_Y = np.digitize(_X @ [1.0, -1.0, 0.5], [-0.7, 0.7]).astype(np.float64)

GIVEN: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "data_norm": 3.0}
CLASSES: dict[str, Any] = {"classes": [0.0, 1.0, 2.0], **GIVEN}
MODELS: dict[str, Any] = {
    "scd": lambda **k: sv.DPLogisticRegression(solver="scd", solver_options={"n_passes": 8}, **CLASSES, **k),
    "multinomial": lambda **k: sv.DPLogisticRegression(
        solver="multinomial-scd", solver_options={"n_passes": 8}, **CLASSES, **k
    ),
    "steps of classes": lambda **k: sv.DPLogisticRegression(
        solver="multinomial-scd", solver_options={"steps": True}, **{**CLASSES, "epsilon": 0.5}, **k
    ),
    "newton": lambda **k: sv.DPLogisticRegression(solver="newton", **CLASSES, **k),
    "svc": lambda **k: sv.DPLinearSVC(solver_options={"n_passes": 8}, **CLASSES, **k),
    "auto norm": lambda **k: sv.DPLinearSVC(solver_options={"n_passes": 8}, **{**CLASSES, "data_norm": "auto"}, **k),
    "refinement": lambda **k: sv.DPRidge(label_bounds=(0.0, 2.0), solver="refinement", **GIVEN, **k),
    "ridge in passes": lambda **k: sv.DPRidge(
        label_bounds=(0.0, 2.0), solver="scd", solver_options={"n_passes": 8}, **GIVEN, **k
    ),
    "adassp": lambda **k: sv.DPRidge(label_bounds=(0.0, 2.0), solver="adassp", **GIVEN, **k),
}


def fitted(model: Any, log: Log | None = None) -> Any:
    """Fit on three partitions of two workers."""
    return model.fit(PooledTable(PartsPool(2), _X, _Y, (40, 50), log))


def logged(model: Any, folder: Path) -> Any:
    log = Log(folder)
    try:
        return fitted(model, log)
    finally:
        log.close()


def kept(folder: Path) -> list[bytes]:
    """All releases."""
    return [file.read_bytes() for file in sorted(folder.glob("release-*"))]


def die_after(folder: Path, n_releases: int) -> None:
    """Leave what a driver leaves that died with so many releases on disk."""
    for file in sorted(folder.glob("release-*"))[n_releases:]:
        file.unlink()


@pytest.mark.parametrize("name", MODELS)
def test_every_release_is_in_the_log_and_a_new_driver_gives_the_same_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, original = [0], GridGaussian.release

    def counted(self: Any, ticks: Any, noise: Any) -> Any:
        drawn[0] += 1
        return original(self, ticks, noise)

    monkeypatch.setattr(GridGaussian, "release", counted)
    model = logged(MODELS[name](random_state=1), tmp_path / "log")
    n_releases = len(kept(tmp_path / "log"))
    assert drawn[0] == n_releases > 1  # nothing is released past the log
    assert np.array_equal(fitted(MODELS[name](random_state=1)).coef_, model.coef_)
    for n_left in (1, n_releases // 2, n_releases):
        die_after(tmp_path / "log", n_left)
        again = logged(MODELS[name](random_state=1), tmp_path / "log")
        assert np.array_equal(again.coef_, model.coef_) and np.array_equal(again.intercept_, model.intercept_)
        assert again.guarantee_.epsilon == model.guarantee_.epsilon
        assert len(kept(tmp_path / "log")) == n_releases


def test_without_a_seed_what_was_released_stays_and_the_rest_is_drawn_anew(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    first = logged(MODELS["scd"](), folder)
    whole = kept(folder)
    die_after(folder, 10)
    second = logged(MODELS["scd"](), folder)
    again = kept(folder)
    assert again[:10] == whole[:10] and len(again) == len(whole)
    assert not any(new == old for new, old in zip(again[10:], whole[10:], strict=True))
    assert not np.array_equal(first.coef_, second.coef_)
    third = logged(MODELS["scd"](), folder)  # it has ended: the same model, and nothing is released
    assert np.array_equal(third.coef_, second.coef_) and kept(folder) == again


class FullLog(Log):
    """Cannot be written from some release on."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__(folder)
        self.number = number

    def released(self, number: int, *given: Any) -> None:
        """Refuse."""
        if number == self.number:
            raise StorageError("no space")
        super().released(number, *given)


def test_nothing_is_asked_with_a_value_that_is_not_on_disk(tmp_path: Path) -> None:
    """What follows from a release is sent after it was written, and never where it could not be."""
    pool = PartsPool(2)
    with pytest.raises(StorageError, match="no space"):
        MODELS["scd"](random_state=1).fit(PooledTable(pool, _X, _Y, (40,), FullLog(tmp_path, 12)))
    steps = [call.arguments[2] for _, call in pool.calls if call.method == "do"]
    passes = [one for one in steps if type(one).__name__ == "AcceleratedPass"]
    before = sum(type(one).__name__ in ("CountWithin", "LargestEigenvalue") for one in steps[::2])
    assert steps[-1] is passes[-1] and len(passes) == 2 * (12 + 1 - before)


def test_rows_rest_while_the_log_answers(tmp_path: Path) -> None:
    """A finished fit asks the rows for no release; partitions only get ready for what changes something."""
    logged(MODELS["newton"](random_state=1), tmp_path / "log")
    pool, log = PartsPool(2), Log(tmp_path / "log")
    MODELS["newton"](random_state=1).fit(PooledTable(pool, _X, _Y, (40,), log))
    asked = {type(call.arguments[2]).__name__ for _, call in pool.calls if call.method == "do"}
    assert asked
    assert asked.isdisjoint({"Gram", "Counts"})
    log.close()


def test_another_table_is_refused_by_its_size(tmp_path: Path) -> None:
    logged(MODELS["svc"](random_state=1), tmp_path / "log")
    log = Log(tmp_path / "log")
    with pytest.raises(ParameterError, match=r"number of rows is 80, and the fit in the log .* was begun with 90"):
        MODELS["svc"](random_state=1).fit(PooledTable(PartsPool(2), _X[:80], _Y[:80], (40,), log))
    log.close()


def test_the_cut_into_partitions_may_be_another_one(tmp_path: Path) -> None:
    model = logged(MODELS["scd"](random_state=1), tmp_path / "log")
    die_after(tmp_path / "log", 9)
    log = Log(tmp_path / "log")
    again = MODELS["scd"](random_state=1).fit(PooledTable(PartsPool(3), _X, _Y, (7, 30, 60, 80), log))
    assert np.array_equal(again.coef_, model.coef_)
    log.close()


@pytest.mark.filterwarnings("ignore::sottovoce.exceptions.PrivacyWarning")
def test_the_receipt_says_where_the_rows_were_and_can_be_checked(tmp_path: Path) -> None:
    here = MODELS["svc"](random_state=1).fit(_X, _Y).guarantee_
    there = fitted(MODELS["svc"](random_state=1)).guarantee_
    assert [line for line in there.assumptions if line not in here.assumptions] == [
        "rows were held by workers of a cluster: who has a machine of it, or can reach its scheduler, sees them. Each "
        "row counts once in each sum, whichever workers died (docs/privacy/cluster.md)"
    ]
    assert (there.event, there.epsilon, there.proof, there.releases) == (
        here.event, here.epsilon, here.proof, here.releases
    )  # fmt: skip
    for name, receipt in (("here", here), ("there", there)):
        path = tmp_path / f"{name}.json"
        path.write_text(receipt.to_json(), encoding="utf-8")
        assert verify_receipt(path).passed, verify_receipt(path).rows()
