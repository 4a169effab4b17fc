"""Models on disk: they predict exactly as before, keep their types, and a foreign file is refused by name."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import sottovoce
from sottovoce import DPLinearSVC, DPLogisticRegression, DPRidge
from sottovoce.estimators.persistence import load_model, model_from_json, model_to_json, save_model
from sottovoce.exceptions import ModelFormatError, ParameterError
from sottovoce.tables import CategoricalColumn, NumericColumn, Schema

SOURCES = sorted(Path(sottovoce.__file__).parent.rglob("*.py"))
COMMON: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 2.0, "random_state": 0}


def rows(n_classes: int = 2, n_rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (n_rows, 3)), rng.integers(n_classes, size=n_rows)


def classifier(
    classes: list[Any] | None = None, kind: type = DPLogisticRegression, **options: Any
) -> tuple[DPLogisticRegression, np.ndarray]:
    classes = ["no", "yes"] if classes is None else classes
    X, places = rows(len(classes))
    y = np.array(classes, dtype=options.pop("dtype", None))[places]
    return kind(classes=classes, **{**COMMON, **options}).fit(X, y), X


def ridge(**options: Any) -> tuple[DPRidge, np.ndarray]:
    X, y = rows()
    return DPRidge(label_bounds=(-1, 2), **{**COMMON, **options}).fit(X, y), X


@pytest.mark.parametrize(
    ("classes", "dtype"),
    [
        (["no", "yes"], None),
        ([0, 1], None),
        ([-1.0, 2.0], None),
        ([False, True], None),
        (["b", "a", "c"], None),
        (["no", "yes"], object),
        (["inf", "nan"], None),
    ],
)
@pytest.mark.parametrize("kind", [DPLogisticRegression, DPLinearSVC])
def test_a_classifier_predicts_exactly_as_before(tmp_path: Path, kind: type, classes: list[Any], dtype: Any) -> None:
    model, X = classifier(classes, kind, dtype=dtype)
    save_model(model, tmp_path / "m.json")
    loaded, schema = load_model(tmp_path / "m.json")
    assert type(loaded) is kind
    assert schema is None
    assert loaded.coef_.tobytes() == model.coef_.tobytes()
    assert loaded.coef_.shape == model.coef_.shape
    assert loaded.intercept_.tobytes() == model.intercept_.tobytes()
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    assert (loaded.n_iter_, loaded.n_features_in_) == (model.n_iter_, 3)
    assert loaded.guarantee_ == model.guarantee_


def test_a_regression_predicts_exactly_as_before(tmp_path: Path) -> None:
    model, X = ridge()
    save_model(model, tmp_path / "m.json")
    loaded, _ = load_model(tmp_path / "m.json")
    assert isinstance(loaded, DPRidge)
    assert isinstance(loaded.intercept_, float)
    assert loaded.predict(X).tobytes() == model.predict(X).tobytes()


def test_parameters_are_kept_and_the_seed_is_not() -> None:
    model, _ = ridge(epsilon=math.inf, delta=None, alpha=np.float64(0.25), verbose=np.int64(0), random_state=3)
    loaded, _ = model_from_json(model_to_json(model))
    expected = model.get_params() | {"random_state": None, "label_bounds": [-1, 2]}
    assert loaded.get_params() == expected
    assert loaded.epsilon == math.inf
    options = {"n_passes": 7}
    model, _ = classifier(solver_options=options)
    assert model_from_json(model_to_json(model))[0].solver_options == options


def test_names_of_features_and_the_schema_are_kept(tmp_path: Path) -> None:
    X, places = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = DPLogisticRegression(classes=[0, 1], **COMMON).fit(frame, places)
    columns = (NumericColumn("a", bounds=(0, 1)), CategoricalColumn("y", categories=(0, 1)))
    schema = Schema(columns, target="y")
    save_model(model, tmp_path / "m.json", schema=schema)
    loaded, kept = load_model(tmp_path / "m.json")
    assert kept == schema
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]
    assert loaded.predict(frame).tolist() == model.predict(frame).tolist()


def test_numbers_that_json_lacks_survive_and_the_file_is_strict_json() -> None:
    model, _ = ridge()
    model.coef_ = np.array([math.inf, -math.inf, math.nan])
    text = model_to_json(model)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    np.testing.assert_array_equal(model_from_json(text)[0].coef_, model.coef_)


def test_saving_again_gives_the_same_bytes() -> None:
    text = model_to_json(classifier()[0])
    assert model_to_json(model_from_json(text)[0]) == text


def test_what_is_no_trained_model_of_ours_is_not_stored() -> None:
    class Mine(DPRidge):
        pass

    with pytest.raises(ParameterError, match=r"only DPRidge, .* can be stored as a model, or a DPPipeline; got Mine"):
        model_to_json(Mine())
    with pytest.raises(NotFittedError, match=r"not fitted yet"):
        model_to_json(DPRidge())
    model, _ = classifier()
    model.classes_ = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")
    with pytest.raises(ParameterError, match=r"classes of type datetime64\[D\] cannot be stored"):
        model_to_json(model)


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    content = json.loads(model_to_json(classifier()[0]))
    change(content)
    return json.dumps(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format="x"), r"not a model file: its format is 'x' instead of 'sottovoce-model'"),
        (lambda c: c.update(version=2), r"has version 2, this version of sottovoce reads 1: update sottovoce"),
        (lambda c: c.update(version=True), r"has version True"),
        (lambda c: c.update(estimator="os.system"), r"is a 'os\.system'; this version of sottovoce knows DPRidge"),
        (lambda c: c.update(estimator=["DPRidge"]), r"entry of the wrong kind"),
        (lambda c: c.pop("fitted"), r"lacks the entry 'fitted': it is damaged"),
        (lambda c: c["fitted"].pop("coef_"), r"lacks the entry 'coef_': it is damaged"),
        (lambda c: c.update(fitted=3), r"entry of the wrong kind"),
        (lambda c: c["parameters"].update(magic=1), r"the parameter 'magic', unknown to this version.*update"),
        (lambda c: c["fitted"]["coef_"][0].pop(), r"coef_ has the shape \(1, 2\) instead of \(1, 3\): damaged"),
        (lambda c: c["fitted"].update(coef_=[["a", 1, 2]]), r"entry of the wrong kind"),
        (lambda c: c["fitted"].update(coef_=[[{"float": "1"}, 1, 2]]), r"is neither a number nor a dict: damaged"),
        (lambda c: c["fitted"].update(intercept_=[1, 2]), r"intercept_ has the shape \(2,\) instead of \(1,\)"),
        (lambda c: c["fitted"]["classes_"].update(kind="pickle"), r"classes_ are of the unknown kind 'pickle'"),
        (lambda c: c["fitted"]["classes_"].update(values=["no"]), r"classes_ must list at least two classes"),
        *(
            (lambda c, name=name, value=value: c["fitted"].update({name: value}), name)
            for name, values in {
                "row_unit_": ([[0.0] * 3, [0.0] * 3], [[0.0] * 3, [1, -1, 1]], [[{"float": "inf"}, 0, 0], [1] * 3]),
                "column_bounds_": ([[1.0] * 3, [0.0] * 3], [[{"float": "nan"}, 0, 0], [1] * 3]),
                "n_features_in_": (3.7, "3", True, 0, -1),
                "n_iter_": (1.5, "x", -1),
                "row_bound_": (0, -1.0),
            }.items()
            for value in values
        ),
        (lambda c: c["fitted"].update(feature_names_in_=["a"]), r"feature_names_in_ has 1 names instead of 3"),
        (lambda c: c["guarantee"].update(epsilon=0.5), r"does not hold together: .*more than the epsilon"),
        (lambda c: c["guarantee"].pop("releases"), r"the receipt is incomplete"),
        (lambda c: c.update(schema={"format": "sottovoce-schema"}), r"does not hold together: the schema has version"),
    ],
)
def test_a_foreign_or_damaged_file_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = tmp_path / "m.json"
    path.write_text(changed(change))
    with pytest.raises(ModelFormatError, match=r"m\.json: .*" + message):
        load_model(path)


def formats() -> set[str]:
    """Return the formats of the files that the package writes, whichever module writes them."""
    lines = [line for path in SOURCES for line in path.read_text(encoding="utf-8").splitlines()]
    named = [line for line in lines if re.search(r'format"|_FORMAT\b', line)]
    return {name for line in named for name in re.findall(r'"(sottovoce-[a-z-]+)"', line)}


@pytest.mark.parametrize("name", sorted(formats() - {"sottovoce-model"}))
def test_each_other_file_of_ours_is_told_what_it_is(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"format": name, "version": 1}))
    with pytest.raises(
        ModelFormatError, match=r"m\.json: this is (an?|one|the) .*(sottovoce \w+|receipt|file)"
    ) as caught:
        load_model(path)
    assert "instead of" not in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", r"it is not JSON"),
        (b"{", r"it is not JSON"),
        (b"[1]", r"its format is None"),
        (b'{"format": NaN}', r"it is not JSON \(NaN is not allowed\)"),
        (b"[" * 100_000, r"it is not JSON"),
        (b"\x80\x04pickle", r"it is not UTF-8 text"),
    ],
)
def test_what_is_no_json_is_refused(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(raw)
    with pytest.raises(ModelFormatError, match=r"m\.json: this is not a model file: " + message):
        load_model(path)
