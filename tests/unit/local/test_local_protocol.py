"""Protocols in Python and JavaScript: what both accept, canonical text and id, and how records become unit vectors."""

import json
import math
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.exceptions import DataError, ParameterError
from sottovoce.local import CategoricalFeature, NumericFeature, Protocol, Randomizer
from support.javascript import JavaScriptError

AGE = NumericFeature("age", 17, 90)
WORK = CategoricalFeature("work", ["private", "public"], missing=True)


def vector(**rest):
    return Protocol(**{"n_features": 3, "completion": "slack", "epsilon": 1.0, "K": 16, "m": 3, "b": 1.0, **rest})


def records(**rest):
    return Protocol(**{"features": [AGE, WORK], "epsilon": 1.0, "K": 16, "m": 3, "b": 1.0, **rest})


# --- text and id ----------------------------------------------------------------------------------------------------

EXAMPLES = [
    vector(),
    vector(epsilon=1e-3, intercept=0.0, scale=1e-5, classes=("no", "yes"), loss="hinge", degree=0),
    vector(loss="squared", label_bounds=(-1e50, 1e-300)),
    records(classes=(0, 1.5)),
    records(task="regression", label_bounds=(0, 1), completion="slack", b=0.1 + 0.2),
]


@pytest.mark.parametrize("protocol", EXAMPLES)
def test_the_text_reads_back_to_the_same_protocol(protocol):
    text = protocol.to_json()
    assert text.isascii()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    for source in (text, text.encode(), f"  {text}\n"):
        again = Protocol.from_json(source)
        assert (again, again.id, hash(again)) == (protocol, protocol.id, hash(protocol))


def test_the_id_is_pinned_and_depends_on_everything():
    assert vector().id.hex() == "4878a25aca029076"
    others = [
        *EXAMPLES, vector(epsilon=1.0 + 2**-52), vector(K=17), vector(m=4), vector(b=0.5), vector(n_features=4),
        vector(loss="hinge"), vector(degree=0), vector(completion="normalise"), vector(intercept=0.25),
        vector(scale=2.0), vector(classes=(1, -1)),
    ]  # fmt: skip
    assert len({protocol.id for protocol in others}) == len(others)
    assert all(len(protocol.id) == 8 for protocol in others)


def test_equal_facts_have_equal_ids():
    assert vector(classes=(0.0, 1.0)) == vector(classes=(np.int64(0), np.float64(1)))
    assert vector(intercept=-0.0, b=-0.0).id == vector(intercept=0.0, b=0.0).id
    assert records(features=(AGE, CategoricalFeature("work", ("private", "public"), True))).id == records().id


BASE = json.loads(records().to_json())
AGE_TEXT, WORK_TEXT = (feature.to_json() for feature in (AGE, WORK))
WIDE = {"completion": "slack", "K": 65_536, "m": 3}


def canonical(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def of_age(**changes):
    return {"features": [{**AGE_TEXT, **changes}]}


def of_work(**changes):
    return {"features": [{**WORK_TEXT, **changes}]}


# what is changed of a protocol, and what Python says of it; JavaScript names the field
BAD_FIELDS = [
    ({"version": 2}, "version 2"), ({"version": "1"}, "version '1'"), ({"version": True}, "version True"),
    ({"format": "other"}, "not a protocol"), ({"noise": 1}, r"unknown fields \['noise'\]"),
    ({"label_bounds": [0.0, 1.0]}, r"unknown fields \['label_bounds'\]"),
    ({"n_features": 3}, r"unknown fields \['n_features'\]"), ({"mechanism": "copies"}, "must be one of 'cap'"),
    ({"epsilon": 33.0}, "epsilon must be .* <= 32"), ({"epsilon": 0.0}, "epsilon must be"),
    ({"epsilon": "1"}, "epsilon must be a finite number"), ({"epsilon": True}, "epsilon must be a finite number"),
    ({"epsilon": None}, "epsilon is missing"), ({"epsilon": [1.0]}, "epsilon must be a finite number"),
    ({"K": 1}, "K must be"), ({"K": 65_537}, "K must be a whole number"), ({"K": 16.0}, "K must be a whole number"),
    ({"m": 0}, "m must be"), ({"m": 16}, "m must be a whole number >= 1 and <= 15"), ({"b": -1.0}, "b must be"),
    ({"b": 17.0}, "b must be"), ({"degree": 2}, "degree must be"), ({"degree": 1.5}, "degree must be"),
    ({"loss": "absolute"}, "loss must be one of"), ({"task": "ranking"}, "task must be one of"),
    ({"classes": "ab"}, "classes of the protocol must be a list"), ({"classes": ["a"]}, "two different labels"),
    ({"classes": ["a", "a"]}, "two different labels"), ({"classes": ["a", [1]]}, "a class must be a text or a number"),
    ({"classes": ["a", None]}, "a class must be"), ({"classes": ["a", ""]}, "a class must be"),
    ({"classes": [True, False]}, "a class must be"), ({"classes": [1, 2**53 + 2]}, "a class must be"),
    ({"classes": ["a", "\ud800"]}, "a class must be"), ({"features": []}, "one or more"), ({"features": {}}, "feature"),
    ({"features": [{"type": "image"}]}, "'numeric' or 'categorical"), ({"features": ["age"]}, "or 'categorical"),
    (of_age(scale=1), "exactly the keys"), ({"features": [AGE_TEXT, AGE_TEXT]}, "must differ"),
    (of_age(low=90.0), "low < high"), (of_age(high=None), "feature 'age'"),
    (of_age(low=-1e308, high=1.7e308), "age"),
    (of_age(missing=1), "True or False"), (of_age(name=""), "name must be a text"),
    (of_age(name="x" * 1001), "name must be a text"), (of_work(categories=[]), "different texts"),
    (of_work(categories=["a", "a"]), "different texts"), (of_work(categories="ab"), "list of texts"),
    (of_work(categories=["a", 1]), "must be a text"),
    (of_work(categories=[str(i) for i in range(100_001)]), "columns"),
    ({**of_work(categories=[str(i) for i in range(5_000)]), **WIDE}, "more work than a device"),
    ({"intercept": 0.0}, "needs intercept > 0"), ({"intercept": 1.0}, "intercept must be"),
    ({"intercept": 0.0005}, "intercept must be"), ({"completion": "pad"}, "completion must be"),
    ({"scale": 0.0}, "scale must be"), ({"scale": 1e101}, "scale must be"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), BAD_FIELDS, ids=lambda value: str(value)[:40])
def test_both_programs_refuse_a_bad_field(node, change, said):
    text = canonical({**BASE, **change})
    with pytest.raises(ParameterError, match=said):
        Protocol.from_json(text)
    named = {"features": "feature|K d", "classes": "class"}.get(field := next(iter(change)), field)
    with pytest.raises(JavaScriptError, match=f"ParameterError: .*({named}|not canonical)"):
        node.ask("protocol", text=text)


GOOD = records().to_json()
UNBENT, WHOLE = vector(intercept=0.0).to_json(), vector(classes=(-1, 1)).to_json()
# texts, and what each of both says of them
BAD_TEXTS = [
    *((text, "not JSON", "not JSON") for text in ("", "[" * 100_000, "{", GOOD + "}")),
    *((text, "not a protocol", "no protocol") for text in ("[]", "null", "3", '{"format":1}')),
    ("é", "not JSON", "not JSON"),
    *((GOOD.replace('"epsilon":1.0', f'"epsilon":{bad}'), "epsilon must be a finite", "not JSON|epsilon")
      for bad in ("NaN", "1e999")),
    *((canonical({key: value for key, value in BASE.items() if key != field}),
       {"format": "not a protocol", "version": "version None"}.get(field, "lacks"),
       {"features": "n_features"}.get(field, field)) for field in BASE),
    *((text, "not canonical", "not canonical|unknown fields") for text in (
        GOOD.replace('"epsilon":1.0', '"epsilon":1'), GOOD.replace('"epsilon":1.0', '"epsilon":1.00'),
        GOOD.replace('"epsilon":1.0', '"epsilon":1e0'), GOOD.replace('"b":1.0', '"b": 1.0'),
        GOOD.replace('"K":16', '"K":16,"K":16'), GOOD.replace("age", "\\u0061ge"),
        json.dumps(dict(reversed(BASE.items())), separators=(",", ":")),
        UNBENT.replace('"intercept":0.0', '"intercept":-0.0'), WHOLE.replace("[-1,1]", "[-1,1.0]"),
        WHOLE.replace("[-1,1]", "[-0,1]"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said", "script"), BAD_TEXTS, ids=lambda value: value[:40])
def test_both_programs_refuse_a_bad_text(node, text, said, script):
    with pytest.raises(ParameterError, match=said):
        Protocol.from_json(text)
    with pytest.raises(JavaScriptError, match=f"ParameterError: .*({script})"):
        node.ask("protocol", text=text)


def test_texts_that_only_python_can_be_given():
    for text, said in ((b"\xff", "ASCII"), (GOOD.replace("age", "\\ud800"), "must be a text")):
        with pytest.raises(ParameterError, match=said):
            Protocol.from_json(text)


def test_what_is_large_and_allowed_is_read_by_both(node):
    """A length counts characters and not their halves."""
    for change in (
        of_work(categories=["\U0001f600" * 1000]),
        {**of_work(categories=[*map(str, range(2_000))]), **WIDE},
    ):
        text = canonical({**BASE, **change})
        assert node.ask("protocol", text=text)["id"] == Protocol.from_json(text).id.hex()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(base=st.sampled_from([BASE, json.loads(vector().to_json())]), data=st.data(), value=JSON_VALUES)
@settings(max_examples=150)
def test_both_judge_alike(node, base, data, value):
    text = canonical({**base, data.draw(st.sampled_from(sorted(base))): value})
    try:
        wanted = Protocol.from_json(text).id.hex()
    except ParameterError:
        with pytest.raises(JavaScriptError, match="ParameterError"):
            node.ask("protocol", text=text)
    else:
        assert node.ask("protocol", text=text)["id"] == wanted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": math.nan}, "epsilon"),
        ({"n_features": None}, "exactly one"),
        ({"features": [AGE]}, "exactly one"),
        ({"n_features": 0}, "n_features"),
        ({"K": None}, "K is missing"),
        ({"label_bounds": (0, 1)}, "for a regression"),
        ({"task": "regression"}, "label_bounds is missing"),
        ({"task": "regression", "label_bounds": (0, 1), "classes": (0, 1)}, "for a classification"),
        ({"task": "regression", "label_bounds": (-1e308, 1e308)}, r"label_bounds\[0\] must be .*>= -1e\+50"),
        ({"task": "regression", "label_bounds": (0, 1), "loss": "logistic"}, "loss must be one of 'squared'"),
        ({"classes": ("a", "b", "c")}, "two different"),
        ({"classes": (0, math.nan)}, "a class must be"),
        ({"n_features": None, "features": [AGE, "work"]}, "NumericFeature"),
    ],
)
def test_arguments_that_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        vector(**arguments)


def test_features_that_are_refused():
    for low, high in ((1, 1), (2, 1), (0, math.inf), (-1e308, 1e308), (math.nan, 1)):
        with pytest.raises(ParameterError):
            NumericFeature("age", low, high)
    for name in ("", 3, "x" * 1001, "\ud800"):
        with pytest.raises(ParameterError, match="must be a text"):
            NumericFeature(name, 0, 1)
    with pytest.raises(ParameterError):
        CategoricalFeature("work", [])


# --- records ----------------------------------------------------------------------------------------------------------


def test_a_record_becomes_its_columns():
    protocol = records()
    assert protocol.columns == ("age", "work=private", "work=public", "work=missing", "(intercept)")
    assert (protocol.n_columns, protocol.d, protocol.scale) == (4, 5, math.sqrt(2))
    for record, row in [
        ({"age": 17, "work": "public"}, [-1, 0, 1, 0]),
        ({"age": 53.5, "work": None}, [0, 0, 0, 1]),
        ({"age": 1e400, "work": ""}, [1, 0, 0, 1]),  # infinity is beyond the bound
        ({"age": -(10**400), "work": math.nan}, [-1, 0, 0, 1]),
        ({"age": np.float32(90)}, [1, 0, 0, 1]),
        ([90, "elsewhere"], [1, 0, 0, 0]),
        (np.array([90, "private"], object), [1, 1, 0, 0]),
    ]:
        assert protocol.row(record).tolist() == row
        full = np.array([*(np.array(row) / math.sqrt(2)), 0.3])
        np.testing.assert_allclose(protocol.encode(record), full / np.linalg.norm(full), rtol=1e-15)


NAMED = records(classes=("no", "yes"))
NUMBERS = Protocol(n_features=2, classes=(0, 1), epsilon=1.0, K=16, m=3, b=1.0)
AMOUNT = records(task="regression", label_bounds=(0, 10))
PERSON = {"age": 44.25, "work": "private"}


def bad_people():
    """Yield a protocol, a record and a label that are refused, and what Python and JavaScript say of them."""
    for record, said in (
        ({**PERSON, "age": None}, "age.*missing"), ({**PERSON, "age": math.nan}, "age.*missing"),
        ({**PERSON, "age": "44"}, "age.*number"), ({**PERSON, "age": True}, "age.*number"),
        ({**PERSON, "work": 3}, "work.*text"), ({**PERSON, "sex": 1}, "unknown ones.*sex"),
        ({"work": "public"}, "lacks the features.*age"), ([20], "2 values"), ("ab", "record"), (None, "record"),
        (3, "record"),
    ):  # fmt: skip
        yield NAMED, record, "yes", said, said
    for label in ("maybe", None, 1, ""):
        yield NAMED, PERSON, label, "the label", "the label"
    for row in ([0.0], [0.0] * 3, [0, math.nan], [0, math.inf], 3, None, "ab", ["1", 2.0], [True, 2.0], [1.0, None]):
        yield NUMBERS, row, 1, "^x (must be|holds)", r"x(\[\d\])? must be"
    for label in (math.nan, math.inf, "3", None, True):
        yield AMOUNT, PERSON, label, "the label (must be|is missing)", "the label must be"
    for label in (True, False, "1", None, 2, 0.5):
        yield NUMBERS, [0.0, 1.0], label, "the label must be one of", "the label must be one of"


@pytest.mark.parametrize(
    ("protocol", "record", "label", "said", "script"), [*bad_people()], ids=lambda one: str(one)[-30:]
)
def test_both_programs_refuse_bad_people(node, protocol, record, label, said, script):
    with pytest.raises(DataError, match=said):
        Randomizer(protocol).report(record, label)
    with pytest.raises(JavaScriptError, match=f"DataError: .*{script}"):
        node.ask("report", text=protocol.to_json(), record=record, label=label)


ODD = [
    pd.NA, pd.NaT, np.datetime64("NaT"), np.ma.masked, np.array(1.0), np.array("private"), np.zeros(0), np.ones(2),
    Decimal("NaN"), Fraction(1, 3), 10**400, -(10**400), object(), 1j, {}, "\ud800", b"x", np.uint64(2**64 - 1),
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_whatever_a_device_is_given_it_makes_a_report_or_refuses(odd):
    people = [(NAMED, each, "yes") for each in (odd, {**PERSON, "age": odd}, {**PERSON, "work": odd})]
    people += [(NAMED, PERSON, odd), (NUMBERS, [odd, 0.5], 1), (NUMBERS, [0.0, 0.5], odd), (NUMBERS, odd, 1)]
    for protocol, record, label in people:
        with suppress(DataError):
            assert len(Randomizer(protocol).report(record, label)) == 22


NOT_NUMBERS = [
    ["1", "2", "3"], [1, 2, True], [np.True_, 1, 2], [1, 2, 10**400], [1, 2, 1j], [[1, 2, 3]], {"a": 1},
    np.array(["1", "2", "3"]), np.array([True, False, True]), np.array([1, 2, "3"], object),
    np.array([1, 2, True], object), np.array([1, 2, 3j]), {1, 2, 3}, iter([1, 2, 3]),
]  # fmt: skip


@pytest.mark.parametrize("x", NOT_NUMBERS, ids=lambda x: type(x).__name__)
def test_texts_and_truth_values_are_no_numbers(x):
    with pytest.raises(DataError, match="x must be 3 numbers"):
        vector().encode(x)
    if isinstance(x, (list, np.ndarray)):
        with pytest.raises(DataError, match=r"must (be 3|hold) numbers"):
            vector().encode_many(np.array([x]) if isinstance(x, np.ndarray) else [[0, 0, 0], x])


def test_what_counts_as_a_number():
    expected = vector().encode([0.5, 0.0, 0.25])
    for x in ((0.5, 0, 0.25), [np.float32(0.5), np.int8(0), Fraction(1, 4)], np.array([0.5, 0, 0.25], object)):
        np.testing.assert_array_equal(vector().encode(x), expected)
        np.testing.assert_array_equal(vector().encode_many([x]), [expected])
    np.testing.assert_array_equal(vector().encode_many(np.array([[0.5, 0, 0.25]], object)), [expected])
    with pytest.raises(DataError, match="shape"):
        vector().encode_many(None)


@pytest.mark.parametrize("completion", ["slack", "normalise"])
def test_rows_that_overflow_keep_their_direction(completion):
    protocol = vector(completion=completion, scale=1e-100)
    huge = protocol.encode_many(np.array([[1e300, 0, -1e300], [1e-300, 1e300, 0], [1e200, 1e150, 0]]))
    root = math.sqrt(0.5)
    share = math.sqrt(1 - 0.3**2) if completion == "slack" else 1
    expected = share * np.array([[root, 0, -root], [0, 1, 0], [root, root, 0]])
    np.testing.assert_allclose(huge[:, :3], expected, rtol=1e-14, atol=1e-99)
    np.testing.assert_allclose((huge * huge).sum(axis=1), 1, rtol=1e-14)


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), st.sampled_from([0.0, 0.001, 0.3, 0.99]))
def test_every_row_becomes_a_unit_vector(x, intercept):
    for completion in ("slack", "normalise") if intercept else ("slack",):
        z = vector(completion=completion, intercept=intercept, scale=7.0).encode(x)
        assert abs(z @ z - 1) < 1e-14
        assert (z[3:] >= 0).all()


def test_slack_keeps_rows_within_the_bound_and_shortens_the_others():
    plain = vector(intercept=0.0, scale=2.0)
    np.testing.assert_allclose(plain.encode([1.2, 0, 0]), [0.6, 0, 0, 0.8], rtol=1e-15)
    np.testing.assert_array_equal(plain.encode([0, 0, -5]), [0, 0, -1, 0])
    with_constant = vector(intercept=0.6)
    np.testing.assert_allclose(with_constant.encode([1, 0, 0]), [0.8, 0, 0, 0.6, 0], rtol=1e-15)
    assert with_constant.columns == ("x0", "x1", "x2", "(intercept)", "(slack)")


def test_many_records_at_once_are_the_same_bits():
    rng = np.random.default_rng(0)
    for completion in ("slack", "normalise"):
        protocol = vector(n_features=40, completion=completion)
        X = 0.2 * rng.standard_normal((50, 40))
        np.testing.assert_array_equal(protocol.encode_many(X), [protocol.encode(x) for x in X])
    both = [[20, "public"], {"age": 30, "work": "private"}]
    np.testing.assert_array_equal(records().encode_many(both), [records().encode(record) for record in both])
    assert records().encode_many([]).shape == (0, 5)
    with pytest.raises(DataError, match="shape"):
        vector().encode_many(np.zeros((2, 4)))
    with pytest.raises(DataError, match="NaN"):
        vector().encode_many([[0, 0, math.nan]])


def test_labels():
    named = records(classes=("no", "yes"))
    assert [named.sign_of_class(y) for y in ("no", "yes", np.str_("yes"))] == [-1, 1, 1]
    numbers = records(classes=(0, 1))
    assert [numbers.sign_of_class(y) for y in (0, 1.0, np.int8(1))] == [-1, 1, 1]
    for y in (np.True_, math.nan):
        with pytest.raises(DataError, match="the label must be one of"):
            numbers.sign_of_class(y)
    amount = records(task="regression", label_bounds=(0, 10))
    assert [amount.scaled_label(y) for y in (0, 5, 10, 12, -1)] == [-1, 0, 1, 1, -1]
    with pytest.raises(ParameterError, match="no classes"):
        amount.sign_of_class(1)
    with pytest.raises(ParameterError, match="no label bounds"):
        named.scaled_label(1)
