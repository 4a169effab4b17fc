"""The recipes of docs/guide/way_out.md, as printed; what is not installed here runs by `make recipes`."""

import re
from pathlib import Path

import numpy as np
import pytest

import sottovoce as sv

PAGE = Path(__file__).parents[2] / "docs/guide/way_out.md"
SECTIONS = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
RECEIPT = "Where does the receipt go?"
NEEDS = {
    "What becomes of each model?": (), RECEIPT: (), "skops": ("skops",), "ONNX": ("skl2onnx", "onnxruntime"),
    "MLflow": ("mlflow", "skops"), "Fairlearn": ("fairlearn",), "dp_accounting": (),
}  # fmt: skip


def blocks(section):
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def run(*names, into=None):
    """Run the first block of the page, then those of the sections with these names."""
    space = {} if into is None else into
    for section in (SECTIONS[0], *(part for name in names for part in SECTIONS if part.startswith(f"{name}\n"))):
        for block in blocks(section):
            exec(compile(block, "way_out.md", "exec"), space)
    return space


def needed(*packages):
    for package in packages:
        pytest.importorskip(package, reason=f"{package} is not installed: `make recipes` has it")


def test_every_section_is_tried():
    assert [section.split("\n")[0] for section in SECTIONS[1:]] == list(NEEDS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(NEEDS))
def test_recipe(name, tmp_path, monkeypatch):
    needed(*NEEDS[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/runs")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database or a server would be another package
    before = {"MLflow": (RECEIPT, "skops"), "ONNX": (RECEIPT,)}
    space = run(*before.get(name, ()), name)
    assert space["model"].guarantee_.epsilon == 1.0
    if name == "MLflow":
        import mlflow

        logged = mlflow.get_run(space["run"].info.run_id)
        assert logged.data.tags["dp.epsilon"] == "1.0"
        found = mlflow.artifacts.download_artifacts(run_id=logged.info.run_id, artifact_path="model.receipt.json")
        assert sv.Guarantee.from_json(Path(found).read_text(encoding="utf-8")) == space["model"].guarantee_


BUDGET = {"epsilon": 2.0, "delta": 1e-4, "random_state": 0}
X = np.random.default_rng(0).uniform(-1, 1, (800, 3))
THREE = np.array(["a", "b", "c"])[X.argmax(axis=1)]
MODELS = {
    "joint": (sv.DPLogisticRegression(**BUDGET, data_norm=2.0, classes=["a", "b", "c"]), THREE),
    "one-vs-rest": (sv.DPLogisticRegression(**BUDGET, data_norm=2.0, classes=["a", "b", "c"], solver="scd"), THREE),
    "svc": (sv.DPLinearSVC(**BUDGET, data_norm=2.0, classes=["a", "b", "c"]), THREE),
    "ridge": (sv.DPRidge(**BUDGET, data_norm=2.0, label_bounds=(-0.5, 0.5)), X[:, 0]),
    "lasso": (sv.DPLasso(**BUDGET, data_bound=1.0, radius=2.0, label_bounds=(-0.5, 0.5)), X[:, 0]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_through_skops(name):
    needed("skops")
    import skops.io

    model, y = MODELS[name]
    stored = skops.io.dumps(model.fit(X, y).to_sklearn())
    allowed = ["numpy.clip"] if name in ("ridge", "lasso") else []
    assert skops.io.get_untrusted_types(data=stored) == allowed
    again = skops.io.loads(stored, trusted=allowed)
    np.testing.assert_array_equal(again.predict(X), model.to_sklearn().predict(X))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_through_onnx(name):
    needed("skl2onnx", "onnxruntime")
    import onnxruntime
    from skl2onnx import to_onnx

    model, y = MODELS[name]
    model.fit(X, y)
    regression = name in ("ridge", "lasso")
    plain = model.to_sklearn(clip_predictions=False) if regression else model.to_sklearn()
    rows = X.astype(np.float32)
    options = {} if regression or name == "svc" else {"options": {"zipmap": False}}
    session = onnxruntime.InferenceSession(
        to_onnx(plain, rows[:1], **options).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    out = session.run(None, {"X": rows})
    if regression:
        np.testing.assert_allclose(out[0][:, 0], plain.predict(X), atol=1e-5)
        return
    assert (out[0] == model.predict(X)).mean() > 0.995
    if name != "svc":
        np.testing.assert_allclose(out[1], model.predict_proba(X), atol=1e-5)
