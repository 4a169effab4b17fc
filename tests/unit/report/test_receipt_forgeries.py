"""Receipts of every kind of run hold together, and edited ones do not, also where the forger mends the rest."""

import copy
import dataclasses
import functools
import io
import itertools
import json
import operator
import re
import tomllib
from contextlib import redirect_stdout

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sottovoce as sv
from sottovoce import receipt_reader, vertical
from sottovoce._plain_data import digest
from sottovoce.estimators.persistence import save_model
from sottovoce.exceptions import ModelFormatError, ParameterError, PrivacyWarning
from sottovoce.papers import dp_scd
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import NothingReleased
from sottovoce.privacy.guarantee import PREPROCESSING, TABLE, Guarantee
from sottovoce.report import receipt_page, verify_receipt
from sottovoce.tables import Schema
from sottovoce.vertical.secure.training import LEAST_ALPHA
from support.published_schema import VALIDATOR
from support.receipts import CENTRAL, OTHER, agree, classifier, fitted, joint, receipts, table, together
from support.schemas import schema_text

RUN, WORDS, EVENT = "run", "words against the mechanism's own", "event against parameters"


def verified(tmp_path, text, **options):
    path = tmp_path / "receipt.json"
    path.write_text(text, encoding="utf-8")
    found = verify_receipt(path, **{"solvers": dp_scd.SOLVERS} | options)
    if found.kind != "page":
        agree(path, found)
    return found


def failed(found):
    return {check.name for check in found.checks if not check.passed}


@pytest.mark.parametrize("name", [*CENTRAL, *OTHER])
def test_honest_receipts_pass(tmp_path, name):
    for receipt in receipts(name):
        found = verified(tmp_path, receipt.to_json())
        assert found.passed, found.rows()
        VALIDATOR.validate(json.loads(receipt.to_json()))
        assert {EVENT, WORDS} <= {check.name for check in found.checks}
        assert (PREPROCESSING in receipt.not_covered) == (receipt.assumptions != () and "local" != name != "shuffled")
        assert receipt.day is not None
        exact = name in {"vertical local-models", "vertical public labels", "vertical svm", "vertical ridge"}
        assert (receipt.model is None) == exact  # of the label holder's own part


@pytest.mark.parametrize(
    "name", ["ridge scd", "lasso", "one-vs-rest", "pipeline", "search", "scaler", "no noise", "vertical ridge", "local"]
)
def test_the_name_of_a_table_stands_in_quotation_marks_and_changes_nothing_else(tmp_path, name):
    receipt = fitted(name).guarantee_
    named = receipt.naming('census "2026"\nof one person')
    assert dict(named.rows())["table"] == r'"census \"2026\"\nof one person"'
    assert verified(tmp_path, named.to_json()).passed
    assert verified(tmp_path, receipt_page(named)).passed
    assert named.statement() == receipt.statement() and named.event == receipt.event
    data = json.loads(named.to_json())
    data["parameters"][TABLE] = "one whole family is protected"
    assert failed(verified(tmp_path, together(data))) == {WORDS}
    data["parameters"][TABLE] = 3
    assert failed(verified(tmp_path, together(data))) == {WORDS}


def test_options_over_parties_are_planned_with_in_double_precision(tmp_path):
    model = joint(vertical.VerticalLasso, label_share=np.float16(0.3), n_steps=np.int8(5))
    assert verified(tmp_path, model.guarantee_.to_json()).passed


def test_a_table_needs_a_name():
    receipt = fitted("ridge scd").guarantee_
    signed = dataclasses.replace(receipt, signature=dict.fromkeys(("algorithm", "public_key", "value"), "a"))
    assert signed.naming("census").signature is None
    for name in ("", " ", None, 3):
        with pytest.raises(ParameterError, match="table must be a string that is not empty"):
            receipt.naming(name)


@pytest.mark.parametrize("name", ["ridge Published", "DPLinearSVC Minibatch"])
def test_the_receipt_of_a_solver_object_is_refused_in_words_by_whoever_does_not_have_its_class(tmp_path, name):
    found = verified(tmp_path, fitted(name).guarantee_.to_json(), solvers=())
    (wrong,) = [check for check in found.checks if not check.passed]
    assert wrong.name == RUN
    assert f"the solver object 'papers.dp_scd.{name.split()[1]}'" in wrong.detail
    assert "solvers=" in wrong.detail


@pytest.mark.parametrize("name", ["ridge scd", "one-vs-rest", "search", "vertical local-models", "local", "no noise"])
def test_a_page_made_right_after_the_fit_passes(tmp_path, name):
    receipt = fitted(name).guarantee_
    assert "np.float64" not in receipt_page(receipt)
    assert verified(tmp_path, receipt_page(receipt)).passed


# --- forgeries of the words and numbers, by a forger who mends sentence and checksum ----------------------------------


def change_adjacency(data):
    data["adjacency"] = {"zero-out": "replace-one", "replace-one": "zero-out", "add-remove": "zero-out"}[
        data["adjacency"]
    ]


def quiet_and_small(data):
    """Six times the noise in the event, and epsilon 0.3 in place of 1."""
    return quieter(data) and data.update(epsilon=min(data["epsilon"], 0.3)) is None


def quiet_and_tiny(data):
    """The noise that goes with a smaller delta, and that delta; the words of the run as they were."""
    return quieter(data) and data["delta"] > 0.0 and data.update(delta=data["delta"] / 10.0) is None


def quieter(data):
    done = False
    for entry in walk(data["event"]):
        for key, factor in (("noise_multiplier", 6.0), ("epsilon", 1.0 / 6.0)):
            if isinstance(entry.get(key), float):
                entry[key] *= factor
                done = True
    return done


def say_it_was_an_older_version(data):
    data["sottovoce"], data["releases"] = "0.0.1", ["nothing"]


def more_people(data):
    """The number of rows in the plan and in the words, both."""
    if "lambda_max (noisy)" not in data["parameters"] or data["parameters"]["arguments"]["n_public"] is not None:
        return False
    n = data["parameters"]["n_samples"]
    data["parameters"]["n_samples"] = 10 * n
    data["assumptions"] = [line.replace(f"n_samples = {n}", f"n_samples = {10 * n}") for line in data["assumptions"]]
    return data["assumptions"] != []


def promise_and_argument(data):
    """A smaller epsilon in the promise and in the arguments, and an event that keeps to it."""
    arguments = data["parameters"].get("arguments", {})
    if isinstance(arguments.get("epsilon"), (int, float)) and quieter(data):
        data["epsilon"] = arguments["epsilon"] = 0.3


FORGERIES = {
    change_adjacency: {WORDS}, quiet_and_small: {EVENT, RUN, WORDS}, quiet_and_tiny: {EVENT, RUN, WORDS},
    say_it_was_an_older_version: {WORDS}, more_people: {EVENT, WORDS}, promise_and_argument: {EVENT, RUN, WORDS},
}  # fmt: skip


@pytest.mark.parametrize("name", ["ridge scd", "local"])
@pytest.mark.parametrize("more", [", certified by an authority", "\nstatement: exact", "\x1b[2J", "1" * 40])
def test_the_version_in_a_receipt_is_one_word(tmp_path, name, more):
    data = json.loads(fitted(name).guarantee_.to_json())
    data["sottovoce"] += more
    (tmp_path / "receipt.json").write_text(together(data))
    with pytest.raises(ModelFormatError, match="version must be one of sottovoce"):
        verify_receipt(tmp_path / "receipt.json")
    assert receipt_reader.main([str(tmp_path / "receipt.json")]) == 2


def test_the_reader_prints_where_the_output_names_no_encoding(tmp_path):
    (tmp_path / "receipt.json").write_text(fitted("ridge scd").guarantee_.to_json())
    with redirect_stdout(io.StringIO()) as told:
        assert receipt_reader.main([str(tmp_path / "receipt.json")]) == 0
    assert "PROMISE" in told.getvalue()


# every solver and mechanism once: what differs between estimators is told apart by the honest ones
FORGED = [
    *(name for name in CENTRAL if name.startswith("ridge ")), "DPLinearSVC auto",
    "lasso", "sparse logistic", "one-vs-rest", "add-remove", "replace-one", "seeded", "no noise", "search",
    *(name for name in OTHER if name.startswith("vertical ")),
    "local", "shuffled",
]  # fmt: skip


def walk(event):
    yield event
    for inner in (*event.get("events", ()), *([event["event"]] if "event" in event else [])):
        yield from walk(inner)


def one_of_three(names, forgeries):
    """Yield each kind with a third of the forgeries, and the rest as slow; each forgery meets a dozen kinds at once."""
    for (k, name), (n, forge) in itertools.product(enumerate(names), enumerate(forgeries)):
        marks = [pytest.mark.slow] * ((k + n) % 3 > 0)
        yield pytest.param(name, forge, id=f"{name}-{forge.__name__}", marks=marks)


@pytest.mark.parametrize(("name", "forge"), [*one_of_three(FORGED, FORGERIES)])
def test_forged_receipts_fail(tmp_path, name, forge):
    tried = 0
    for receipt in itertools.islice(receipts(name), 2):
        data = json.loads(receipt.to_json())
        if forge(data) is False or data == json.loads(receipt.to_json()):
            continue  # the receipt has no such entry
        if receipt.epsilon == 0.0:
            continue  # of a party that gave nothing away
        found = verified(tmp_path, together(data))
        assert not found.passed
        assert failed(found) & {*FORGERIES[forge], "promise against event"}, found.rows()
        assert "checksum" not in failed(found)  # the forger mended it
        tried += 1
    if tried == 0:
        pytest.skip("a receipt of this kind has no such entry")


@pytest.mark.parametrize("name", [name for name in OTHER if name.startswith("vertical ") and "no noise" not in name])
def test_the_receipt_of_a_party_states_what_its_plan_has_this_party_give_away(tmp_path, name):
    model = fitted(name)
    each = model.party_guarantees_
    others = {NothingReleased(), model.guarantee_.event, *(receipt.event for receipt in each.values())}
    for receipt, event in itertools.product(each.values(), others):
        accountant = accountant_for(event)
        epsilon = accountant.epsilon(event, receipt.delta)
        given = dataclasses.replace(receipt, event=event, epsilon=epsilon, accountant=accountant.name)
        assert (EVENT in failed(verified(tmp_path, given.to_json()))) == (event != receipt.event)
    data = json.loads(receipt.to_json())
    data["parameters"]["party"] = "nobody"
    assert RUN in failed(verified(tmp_path, together(data)))


# what follows from nothing, is made again by the forger, or has tests of its own
APART = {"day", "ledger", "model", "schema", "signature", "checksum", "statement", "format", "version", "sottovoce"}
FOREIGN = ("everybody is protected", ["everybody is protected"], {"a": 1})
# each kind that there is, but solvers that differ in nothing else
EDITED = [
    *(name for name in CENTRAL if not re.match("DPL|newton |one-vs-rest sgd|replace-one|seeded", name)),
    *OTHER, "evaluation", "evaluation of numbers",
]  # fmt: skip
OF_RUN = re.compile(
    r"\(noisy\)|found in the rows|after AdaSSP's rule|clip of the residuals|alpha that the noise asks for|"
    r"^(converged|protocol|n_reports|at delta|model that was evaluated|released counts \(SHA-256\))$"
)
OF_ITSELF = ("data_norm", "fit_intercept")  # the label holder
# the run is the same: a batch of more rows than there are, and an option that says what the rule does
SAME_RUN = (("ridge Published", "batch_size"), ("all classes jointly, steps", "dict"))


def edits(data, path=()):
    """Yield the way to each entry, what it is changed to, and whether that is of another kind than what is there."""
    if isinstance(data, dict):
        gone = [name for name in data if path or name not in APART]
        changed = [{name: data[name] for name in data if name != left} for left in gone]
        yield from ((path, one, False) for one in (*changed, {**data, "reviewed by": "everybody"}))
        for name in gone:
            yield from edits(data[name], (*path, name))
    elif isinstance(data, list):
        yield from ((path, one, False) for one in (data[:-1], [*data, "nothing"], [], data[:1] + data) if one != data)
        for place, one in enumerate(data):
            yield from edits(one, (*path, place))
    elif isinstance(data, str):
        yield path, f"{data}x", False
    else:
        below = [-1] * (isinstance(data, bool) or path[-1] == LEAST_ALPHA)
        yield from ((path, one, True) for one in (*FOREIGN, *below))
        others = [not data] if isinstance(data, bool) or data is None else [2 * data + 5, data - 1, 0.5 * data, 1]
        yield from ((path, one, False) for one in others if one != data)


def evaluated(name):
    X, y = np.linspace(-1.0, 1.0, 40)[:, None], np.arange(40) % 2
    model, bounds = (LinearRegression(), (0, 1)) if name.endswith("numbers") else (LogisticRegression(), None)
    return sv.evaluate(model.fit(X, y), X, y, epsilon=1.0, label_bounds=bounds)


def is_named(path, data, edit, said):
    """Tell whether `verify` says that nobody can check this entry, or one that is left out."""
    here = functools.reduce(operator.getitem, path, data)
    path = (*path, *(here.keys() - edit.keys() or ["reviewed by"])) if isinstance(here, dict) else path
    holder, said = data["parameters"].get("label_holder"), next(line for line in said if "from them" in line)
    if path[-1] in OF_ITSELF and holder is not None:
        return path[-1] in said and (path[-1] == "fit_intercept" or path[2] == holder)
    argument = next(part for part in reversed(path) if isinstance(part, str))
    if argument == "in-process":  # with its version
        return True
    return OF_RUN.search(path[1]) or re.search(rf"\b{argument}\b", said.partition("label holder")[0])


@pytest.mark.parametrize(
    ("name", "every"),
    [pytest.param(name, every, marks=[pytest.mark.slow] * (every == 1)) for every in (17, 1) for name in EDITED],
)
def test_no_edit_passes_but_of_what_verify_says_that_it_cannot_check(tmp_path, name, every):
    """Of any entry, by a forger who mends sentence and checksum; without noise nothing is promised by parameters."""
    data = json.loads((evaluated if name.startswith("evaluation") else fitted)(name).guarantee_.to_json())
    assert verified(tmp_path, together(data)).passed
    for path, edit, other in list(edits(data))[EDITED.index(name) % every :: every]:
        edited = copy.deepcopy({"": data})
        functools.reduce(operator.getitem, path[:-1], edited[""] if path else edited)[path[-1] if path else ""] = edit
        try:
            found = verified(tmp_path, together(edited[""]))
        except (ModelFormatError, KeyError):  # the last: there is no sentence to mend
            continue
        promises = data["epsilon"] != "inf"
        known = path[:1] == ("parameters",) and (
            not promises or is_named(path, data, edit, found.not_checkable) or (name, path[-1]) in SAME_RUN
        )
        assert not found.passed or (known and not other), (path, edit)


@pytest.mark.parametrize(
    ("name", "entry", "value"),
    [
        *((name, "label_holder", value) for name in ("vertical ridge", "vertical svm", "vertical lasso")
          for value in ("party2", "nobody", 0.25, "")),
        *((name, "classes", value) for name in ("vertical svm", "vertical local-models", "vertical sparse")
          for value in (["b", "a"], ["a", "ill"], ["a"])),
    ],
)  # fmt: skip
def test_arguments_over_parties_go_with_what_was_trained(tmp_path, name, entry, value):
    for receipt in receipts(name):
        data = json.loads(receipt.to_json())
        data["parameters"]["arguments"][entry] = value
        assert failed(verified(tmp_path, together(data))) & {RUN, WORDS, EVENT}


@pytest.mark.parametrize("entry", ["day", "ledger", "model", "unit", "seeded", "parameters"])
def test_a_forger_who_mends_nothing_is_caught_by_the_checksum(tmp_path, entry):
    data = json.loads(fitted("ridge scd").guarantee_.to_json())
    data[entry] = {"day": "2020-01-01", "model": 64 * "0", "seeded": True}.get(entry, data[entry])
    if entry == "ledger":
        data[entry] = {"ledger": "a", "dataset": "b", "charge": "c", "entry": "d"}
    if entry == "unit":
        data[entry] = "one person"
    if entry == "parameters":
        data[entry]["passes"] = 1
    assert "checksum" in failed(verified(tmp_path, json.dumps(data)))


def test_a_fitted_step_cannot_be_left_out_of_the_exceptions(tmp_path):
    X, y = table()
    with pytest.warns(PrivacyWarning, match="standardscaler. .StandardScaler. learned from the data"):
        model = make_pipeline(
            StandardScaler(), sv.DPRidge(epsilon=1.0, delta=1e-5, data_norm=2.0, label_bounds=(-1, 2))
        )
        receipt = model.fit(X, y)[-1].guarantee_
    assert verified(tmp_path, receipt.to_json()).passed
    data = json.loads(receipt.to_json())
    line = data["not_covered"].pop(0)
    assert "StandardScaler" in line
    assert failed(verified(tmp_path, together(data))) == {WORDS}


# --- the model --------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    model = fitted("DPLogisticRegression scd")
    save_model(model, tmp_path / "model.json")
    (tmp_path / "model.receipt.json").write_text(model.guarantee_.to_json())
    exact = classifier(sv.DPLogisticRegression, epsilon=np.inf)
    save_model(exact, tmp_path / "exact.json")
    return tmp_path


def edited(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


def test_a_receipt_belongs_to_its_model(files):
    found = verify_receipt(files / "model.receipt.json", model=files / "model.json")
    assert found.passed, found.rows()
    assert {"model", "arguments of the model", "schema of the model", "receipt in the model"} <= {
        check.name for check in found.checks
    }
    assert verify_receipt(files / "model.json").passed
    with pytest.raises(ModelFormatError, match="this is a receipt, not a model file"):
        verify_receipt(files / "model.json", model=files / "model.receipt.json")


def test_coefficients_of_another_model_fail(files):
    exact = json.loads((files / "exact.json").read_text())
    edited(files / "model.json", lambda content: content.update(fitted=exact["fitted"]))
    assert failed(verify_receipt(files / "model.json")) == {"model"}
    assert failed(verify_receipt(files / "model.receipt.json", model=files / "model.json")) == {"model"}
    assert "model" in failed(verify_receipt(files / "model.receipt.json", model=files / "exact.json"))


@pytest.mark.parametrize(("name", "value"), [("data_norm", 0.001), ("epsilon", 0.1), ("classes", ["b", "a"])])
def test_arguments_of_another_model_fail(files, name, value):
    edited(files / "model.json", lambda content: content["parameters"].update({name: value}))
    for found in (
        verify_receipt(files / "model.json"),
        verify_receipt(files / "model.receipt.json", model=files / "model.json"),
    ):
        assert failed(found) == {"arguments of the model"}
        assert name in dict(found.rows())["arguments of the model"]


@pytest.mark.parametrize(
    ("entry", "value"),
    [("day", "2020-01-01"), ("ledger", {"ledger": "a", "dataset": "b", "charge": "c", "entry": "d"})],
)
def test_what_follows_from_nothing_is_compared_with_the_receipt_in_the_model(files, entry, value):
    data = json.loads((files / "model.receipt.json").read_text()) | {entry: value}
    (files / "model.receipt.json").write_text(together(data))
    assert verify_receipt(files / "model.receipt.json").passed  # nothing else in the file tells
    assert any("day, ledger entry" in text for text in verify_receipt(files / "model.receipt.json").not_checkable)
    found = verify_receipt(files / "model.receipt.json", model=files / "model.json")
    assert failed(found) == {"receipt in the model"}


def test_models_of_every_kind_are_tied(tmp_path):
    for name in ("lasso", "ridge adassp", "ridge refinement", "one-vs-rest", "sparse logistic", "no noise"):
        save_model(fitted(name), tmp_path / "model.json")
        found = verify_receipt(tmp_path / "model.json")
        assert found.passed, found.rows()
    save_model(fitted("search").best_estimator_, tmp_path / "model.json")
    assert verify_receipt(tmp_path / "model.json").passed


def test_a_local_model_is_tied(tmp_path):
    fitted("local").save(tmp_path / "model.json")
    assert verify_receipt(tmp_path / "model.json").passed
    edited(tmp_path / "model.json", lambda content: content["weights"].reverse())
    assert failed(verify_receipt(tmp_path / "model.json")) == {"model"}
    fitted("local").save(tmp_path / "model.json")
    edited(tmp_path / "model.json", lambda content: content.update(n_reports=7))
    assert failed(verify_receipt(tmp_path / "model.json")) == {"protocol of the model"}


# --- the schema -------------------------------------------------------------------------------------------------------

SCHEMA = schema_text("y", a=(0, 1), b=["no", "yes", "other"], y=(-1, 2))


@pytest.fixture
def with_schema(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    save_model(fitted("ridge scd"), tmp_path / "model.json", schema=Schema.from_toml(tmp_path / "schema.toml"))
    return tmp_path / "model.json"


def test_the_receipt_has_the_schema(with_schema):
    found = verify_receipt(with_schema)
    assert found.passed, found.rows()
    assert tomllib.loads(found.guarantee.schema)["columns"]["a"]["bounds"] == [0, 1]
    assert {"schema", "schema of the model"} <= {check.name for check in found.checks}


def test_a_schema_that_no_parser_would_get_through_is_refused_at_once(with_schema):
    forged = dataclasses.replace(verify_receipt(with_schema).guarantee, schema="a." * 100_000 + "b = 1\n")
    (check,) = (one for one in verify_receipt(forged).checks if one.name == "schema")
    assert not check.passed and "more than 100 parts" in check.detail


def test_a_schema_of_features_alone_holds_too(tmp_path):
    """As that of a `SchemaEncoder`: it names no target, and what it says of the features is compared."""
    columns = {"a": (0, 1), "b": ["no", "yes", "other"]}
    for path, schema in (
        (tmp_path / "right.json", Schema.from_columns(columns)),
        (tmp_path / "wrong.json", Schema.from_columns({"a": (0, 1)})),
    ):
        save_model(fitted("ridge scd"), path, schema=schema)
    assert verify_receipt(tmp_path / "right.json").passed
    assert "schema" in {check.name for check in verify_receipt(tmp_path / "wrong.json").checks if not check.passed}


@pytest.mark.parametrize(
    ("before", "after", "mended", "caught"),
    [
        ("bounds = [0, 1]", "bounds = [0, 100]", False, {"schema"}),
        ("bounds = [0, 1]", "bounds = [0, 100]", True, {"schema of the model"}),
        ('"other"', '"others", "none"', True, {"schema", "schema of the model"}),
        ("bounds = [-1, 2]", "bounds = [-1, 200]", True, {"schema", "schema of the model"}),
        ("[columns.a]", "[columns.", True, {"schema", "schema of the model"}),
    ],
)
def test_an_edited_schema_fails(with_schema, before, after, mended, caught):
    content = json.loads(with_schema.read_text())
    data = content["guarantee"]
    assert before in data["schema"]["text"]
    data["schema"]["text"] = data["schema"]["text"].replace(before, after)
    if mended:
        data = Guarantee.from_dict(data).to_dict()
    data["checksum"] = digest({key: value for key, value in data.items() if key not in ("checksum", "signature")})
    edited(with_schema, lambda content: content.update(guarantee=data))
    assert failed(verify_receipt(with_schema)) == caught if mended else caught <= failed(verify_receipt(with_schema))
