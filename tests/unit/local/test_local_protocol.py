"""Protocols: what they accept, their canonical text and id, and how records become unit vectors."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.exceptions import DataError, ParameterError
from sottovoce.local import CategoricalFeature, NumericFeature, Protocol

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


def changed(**changes):
    document = json.loads(records().to_json())
    for name, value in changes.items():
        if value is ...:
            del document[name]
        else:
            document[name] = value
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a protocol"),
        ('{"format":"other"}', "not a protocol"),
        ("é", "not JSON"),
        (b"\xff", "ASCII"),
        (changed(version=2), "version 2"),
        (changed(version=True), "version True"),
        (changed(version=...), "version None"),
        (changed(noise=1), r"unknown fields \['noise'\]"),
        (changed(m=...), r"lacks \['m'\]"),
        (changed(label_bounds=[0.0, 1.0]), r"unknown fields \['label_bounds'\]"),
        (changed(n_features=3), r"unknown fields \['n_features'\]"),
        (changed(mechanism="copies"), "mechanism must be one of 'cap'"),
        (changed(epsilon=33.0), "epsilon must be .* <= 32"),
        (changed(epsilon="1"), "epsilon must be a finite number"),
        (changed(epsilon=True), "epsilon must be a finite number"),
        (changed(epsilon=None), "epsilon is missing"),
        (changed(epsilon=1), "not canonical"),
        (changed(K=65_537), "K must be a whole number"),
        (changed(K=16.0), "K must be a whole number"),
        (changed(m=16), "m must be a whole number >= 1 and <= 15"),
        (changed(b=-1.0), "b must be"),
        (changed(degree=2), "degree must be"),
        (changed(loss="absolute"), "loss must be one of"),
        (changed(task="ranking"), "task must be one of"),
        (changed(classes="ab"), "classes of the protocol must be a list"),
        (changed(classes=["a", "a"]), "two different labels"),
        (changed(classes=["a", [1]]), "a class must be a text or a number"),
        (changed(features=[]), "one or more"),
        (changed(features=[{"type": "image"}]), "numeric' or 'categorical"),
        (changed(features=["age"]), "numeric' or 'categorical"),
        (changed(features=[{**AGE.to_json(), "scale": 1}]), "exactly the keys"),
        (changed(features=[AGE.to_json(), AGE.to_json()]), "must differ"),
        (changed(features=[{**AGE.to_json(), "low": 90.0}]), "low < high"),
        (changed(features=[{**AGE.to_json(), "missing": 1}]), "True or False"),
        (changed(features=[{**WORK.to_json(), "categories": ["a", "a"]}]), "different texts"),
        (changed(features=[{**WORK.to_json(), "categories": "ab"}]), "list of texts"),
        (changed(intercept=0.0), "needs intercept > 0"),
        (changed(scale=0.0), "scale must be"),
        (records().to_json().replace("1.0", "1.00"), "not canonical"),
        (records().to_json().replace('"K":16', '"K":16,"K":16'), "not canonical"),
        (records().to_json().replace('"epsilon":1.0', '"epsilon":NaN'), "epsilon must be a finite"),
        (records().to_json().replace('"epsilon":1.0', '"epsilon":1e999'), "epsilon must be a finite"),
        (records().to_json().replace(",", ", ", 1), "not canonical"),
        (records().to_json().replace("age", "\\u0061ge"), "not canonical"),
        (records().to_json().replace("age", "\\ud800"), "must be a text"),
    ],
)  # fmt: skip
def test_texts_that_are_refused(text, message):
    with pytest.raises(ParameterError, match=message):
        Protocol.from_json(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": math.inf}, "epsilon"),
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
        ({"classes": (True, False)}, "a class must be"),
        ({"classes": (0, math.nan)}, "a class must be"),
        ({"intercept": 1.0}, "intercept"),
        ({"intercept": 1e-9}, "intercept"),
        ({"completion": "normalise", "intercept": 0.0}, "needs intercept"),
        ({"n_features": 5000, "K": 65_536}, "more work than a device"),
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


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"age": None, "work": "public"}, "'age' is missing"),
        ({"age": math.nan, "work": "public"}, "'age' is missing"),
        ({"work": "public"}, r"lacks the features \['age'\]"),
        ({"age": 20, "work": "public", "sex": 1}, r"unknown ones \['sex'\]"),
        ({"age": "20", "work": "public"}, "'age' must be a number"),
        ({"age": True, "work": "public"}, "'age' must be a number"),
        ({"age": 20, "work": 7}, "'work' must be a text"),
        ([20], "sequence of 2 values"),
        ("ab", "sequence of 2 values"),
        (None, "sequence of 2 values"),
    ],
)
def test_records_that_are_refused(record, message):
    with pytest.raises(DataError, match=message):
        records().encode(record)


@pytest.mark.parametrize("x", [[1, 2], [1, 2, math.nan], [1, 2, math.inf], "abc", None, [[1, 2, 3]], {"a": 1}])
def test_rows_that_are_refused(x):
    with pytest.raises(DataError, match=r"x (must be 3 numbers|holds NaN)"):
        vector().encode(x)


NOT_NUMBERS = [
    ["1", "2", "3"], [1, 2, "3"], [1, 2, True], [np.True_, 1, 2], [1, 2, None], [1, 2, 10**400], [1, 2, 1j],
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
    refused = ((numbers, True), (numbers, False), (numbers, np.True_), (named, "maybe"), (named, 1), (numbers, "1"))
    for protocol, y in (*refused, (numbers, math.nan), (numbers, None)):
        with pytest.raises(DataError, match="the label must be one of"):
            protocol.sign_of_class(y)
    amount = records(task="regression", label_bounds=(0, 10))
    assert [amount.scaled_label(y) for y in (0, 5, 10, 12, -1)] == [-1, 0, 1, 1, -1]
    for y in (math.nan, math.inf, "5", None):
        with pytest.raises(DataError, match="the label"):
            amount.scaled_label(y)
    with pytest.raises(ParameterError, match="no classes"):
        amount.sign_of_class(1)
    with pytest.raises(ParameterError, match="no label bounds"):
        named.scaled_label(1)
