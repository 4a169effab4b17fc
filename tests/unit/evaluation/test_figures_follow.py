"""Nothing of a stored evaluation can be changed without `verify` noticing it: figures, counts, plan and receipt."""

import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest

import sottovoce as sv
from sottovoce._plain_data import digest
from sottovoce.evaluation.evaluation import released
from sottovoce.evaluation.plan import COUNTS
from sottovoce.exceptions import ModelFormatError
from sottovoce.report import make_key, read_receipt, sign_receipt, verify_receipt

FIT = {"epsilon": 4.0, "delta": 1e-4, "data_norm": 2.0, "random_state": 0}


def evaluated(kind):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=600)
    names = np.array(["a", "b", "c"] if "several" in kind else ["no", "yes"])
    labels = names[np.digitize(y, [-0.3, 0.3] if "several" in kind else [0.0])]
    if kind == "numbers":
        model = sv.DPRidge(**FIT, label_bounds=(-2.0, 2.0)).fit(X, y)
        return sv.evaluate(model, X, y, epsilon=2.0, delta=1e-6)
    made = sv.DPLogisticRegression if "probabilities" in kind else sv.DPLinearSVC
    model = made(**FIT, classes=names.tolist()).fit(X, labels)
    return sv.evaluate(model, X, labels, epsilon=2.0)


KINDS = ["two, probabilities", "two, scores", "several, probabilities", "several", "numbers"]


@pytest.fixture(scope="module", params=KINDS)
def found(request):
    return evaluated(request.param)


def leaves(data, path=()):
    """Yield where each value of plain data is, lists and mappings among them."""
    if path:
        yield path
    if isinstance(data, dict):
        for name, item in data.items():
            yield from leaves(item, (*path, name))
    if isinstance(data, list):
        for place, item in enumerate(data):
            yield from leaves(item, (*path, place))


def others(value):
    """Return other values of the same kind and of other kinds; of a number also the next one."""
    if isinstance(value, bool):
        return [not value, None, int(value)]
    if isinstance(value, float):
        near = [math.nextafter(value, math.inf)] if value else []
        return [*near, 1.001 * value + 1e-3, -value - 1.0, value + 1.0, None, str(value), [value], {"float": "inf"}]
    if isinstance(value, int):
        return [value + 1, -value - 1, 0.5 + value, None, str(value), float(value)]
    if isinstance(value, str):
        return [value + " ", value[:-1], "", None, 1.0, value.swapcase() if value.swapcase() != value else "x"]
    if value is None:
        return [0.0, "", [], False]
    if isinstance(value, list):
        return [value[:-1] if value else [0.0], [*value, value[-1] if value else 0.0], None, {}]
    return [{**value, "more": 1.0}, None, [], dict(list(value.items())[1:]) if value else 1.0]


def changed(data, path, value):
    out = copy.deepcopy(data)
    at = out
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    return out


def noticed(path, data, **given):
    path.write_text(json.dumps(data), encoding="utf-8")
    try:
        return not verify_receipt(path, **given).passed
    except ModelFormatError:
        return True


@pytest.mark.parametrize("n_changes", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_every_value_of_a_stored_evaluation(found, n_changes, tmp_path):
    """Each value of the file, changed in one way of many; or in up to four, 3,083 files in all."""
    file = tmp_path / "evaluation.json"
    stored = json.loads(found.to_json())
    assert not noticed(file, stored)
    rng = np.random.default_rng(0)
    missed = []
    for path in leaves(stored):
        value = stored
        for name in path:
            value = value[name]
        changes = others(value)
        if path[0] == "measures" and isinstance(value, float) and value:
            changes = changes[1:]  # the next number: other machines may round so
        for other in rng.permutation(len(changes))[:n_changes]:
            if not noticed(file, changed(stored, path, changes[other])):
                missed.append((path, value, changes[other]))
    assert not missed


def test_every_value_of_a_signed_one_with_its_digests_put_right(found, tmp_path):
    """A forger who writes digest and checksum anew is left with a signature that does not fit."""
    pytest.importorskip("cryptography")
    file, public = tmp_path / "evaluation.json", make_key(tmp_path / "key")
    signed = replace(found, guarantee_=sign_receipt(found.guarantee_, tmp_path / "key"))
    stored = json.loads(signed.to_json())
    assert not noticed(file, stored, public_key=public)
    rng = np.random.default_rng(1)
    for name, table in found.tables.items():
        for place in rng.permutation(table.cells.size)[:4]:
            cells = table.cells.copy()
            cells.flat[place] += 100.0
            forged = forge(found, {**found.tables, name: replace(table, cells=cells)}, signed.guarantee_)
            assert not noticed(file, forged)  # whoever does not ask for the signature reads a file that holds together
            assert noticed(file, forged, public_key=public)
    for name in ("day", "model", "ledger", "sottovoce"):
        forged = changed(stored, ("guarantee", name), "2020-01-01" if name == "day" else "0" * 64)
        assert noticed(file, put_right(forged), public_key=public)


def forge(found, tables, receipt):
    """Return a stored evaluation with other counts, and all else made to fit them."""
    parameters = {**receipt.parameters, COUNTS: digest(released(found.classes, tables))}
    made = replace(found, tables=tables, guarantee_=replace(receipt, parameters=parameters))
    return json.loads(made.to_json())


def put_right(stored):
    body = {name: value for name, value in stored["guarantee"].items() if name not in ("checksum", "signature")}
    return changed(stored, ("guarantee", "checksum"), digest(body))


def test_perfect_figures_beside_an_honest_receipt(tmp_path):
    """Labels by chance, counts moved to where each row is predicted rightly; the signed receipt stays as it was."""
    pytest.importorskip("cryptography")
    found = evaluated("two, probabilities")
    public = make_key(tmp_path / "key")
    stored = json.loads(replace(found, guarantee_=sign_receipt(found.guarantee_, tmp_path / "key")).to_json())
    cells = np.array(stored["tables"]["table"]["cells"])
    total = cells.sum(axis=1)
    cells[:] = 0.0
    cells[0, 0], cells[1, -1] = total
    forged = changed(stored, ("tables", "table", "cells"), cells.tolist())
    assert noticed(tmp_path / "evaluation.json", forged, public_key=public)
    with pytest.raises(ModelFormatError, match="the counts are not those that the receipt of the evaluation is about"):
        sv.Evaluation.from_dict(forged)
    forged = changed(stored, ("measures", "accuracy", "value"), 1.0)
    assert noticed(tmp_path / "evaluation.json", forged, public_key=public)


def test_a_page_of_an_evaluation(found, tmp_path):
    page = tmp_path / "evaluation.html"
    for title in (None, "Spring"):
        text = found.to_html(title=title)
        page.write_text(text, encoding="utf-8")
        checked = verify_receipt(page)
        assert checked.passed and checked.kind == "page", checked.rows()
        assert read_receipt(page) == found.guarantee_
        value = f"{found.r2 if found.classes is None else found.accuracy:.4g}"
        assert value in text
        page.write_text(text.replace(value, "0.9999", 1), encoding="utf-8")
        assert not verify_receipt(page).passed


def test_of_a_receipt_alone_the_figures_are_not_checked(found, tmp_path):
    path = tmp_path / "receipt.json"
    path.write_text(found.guarantee_.to_json(), encoding="utf-8")
    checked = verify_receipt(path)
    assert checked.passed
    assert any(line.startswith("the figures: they are not in the receipt") for line in checked.not_checkable)


def test_figures_of_a_large_table_of_a_stranger(found, tmp_path):
    """A long axis would be solved for hours; it is refused."""
    stored = json.loads(found.to_json())
    if found.tables["table"].axes[1] is None:
        return
    long = [[np.linspace(-8.0, 8.0, 10_000).tolist()], None]
    forged = changed(stored, ("tables", "table", "axes", 1), long)
    forged["tables"]["table"]["cells"] = [[1.0] * 10_000] * 2
    with pytest.raises(ModelFormatError, match="more than 64 nodes"):
        sv.Evaluation.from_dict(forged)
    assert noticed(tmp_path / "evaluation.json", forged)
