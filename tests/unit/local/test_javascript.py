"""The JavaScript module does what the Python package does, bit for bit; test_local_protocol.py has what both refuse."""

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.local import CategoricalFeature, NumericFeature, Protocol, Randomizer
from sottovoce.local.odds import Odds
from sottovoce.local.wire import seed_of
from support.javascript import JavaScriptError, Node
from support.simulated_reports import candidates

DATA = Path(__file__).parents[2] / "data"
VECTORS = json.loads((DATA / "local_vectors.json").read_text(encoding="ascii"))
TEXTS = {entry["name"]: entry["text"] for entry in VECTORS["protocols"]}
PERSON = {"age": 44.25, "work": "none", "hours": None, "école": "A"}


def bits(values: Any) -> list[str]:
    return [f"{int(word):016x}" for word in np.asarray(values, np.float64).view(np.uint64)]


class TestVectors:
    def test_quantile(self, node: Node) -> None:
        ks, wanted = zip(*((entry["k"], entry["bits"]) for entry in VECTORS["quantile"]), strict=True)
        assert node.ask("quantile", ks=ks) == list(wanted)

    @pytest.mark.parametrize("entry", VECTORS["candidates"], ids=lambda entry: entry["seed"])
    def test_candidates(self, node: Node, entry: dict[str, Any]) -> None:
        assert node.ask("candidate", seed=entry["seed"], index=entry["index"], d=entry["d"]) == entry["bits"]

    @pytest.mark.parametrize("entry", VECTORS["protocols"], ids=lambda entry: entry["name"])
    def test_protocols(self, node: Node, entry: dict[str, Any]) -> None:
        read = node.ask("protocol", text=entry["text"])
        assert read["id"] == entry["id"]
        assert read["threshold"] == entry["threshold"]
        protocol = Protocol.from_json(entry["text"])
        assert (read["d"], tuple(read["columns"])) == (protocol.d, protocol.columns)
        records, wanted = zip(*((each["record"], each["bits"]) for each in entry["encoded"]), strict=True)
        assert node.ask("encode", text=entry["text"], records=records) == list(wanted)

    @pytest.mark.parametrize("place", range(len(VECTORS["reports"])))
    def test_reports(self, node: Node, place: int) -> None:
        entry = VECTORS["reports"][place]
        report = node.ask("report", text=TEXTS[entry["protocol"]], **{key: entry[key] for key in REPORT})
        assert report == entry["report"]


REPORT = ("record", "label", "token", "random")


class TestManyCandidates:
    def test_quantile_of_many_numbers(self, node: Node) -> None:
        rng = np.random.default_rng(5)
        ks = rng.integers(0, 2**52, 4000) >> rng.integers(0, 52, 4000)
        ks[::2] = 2**52 - 1 - ks[::2]
        seen = node.ask("quantile", ks=[str(k) for k in ks])
        from sottovoce.local.candidates import normal_quantile

        assert seen == bits(normal_quantile((2 * ks + 1) * 2.0**-53))

    @given(seed=st.integers(0, 2**64 - 1), index=st.integers(0, 65_535), d=st.integers(1, 200))
    @settings(max_examples=100)
    def test_candidates_of_any_seed(self, node: Node, seed: int, index: int, d: int) -> None:
        wanted = candidates(np.array([seed], np.uint64), np.array([index]), d)[0]
        assert node.ask("candidate", seed=str(seed), index=index, d=d) == bits(wanted)


EPSILONS = st.floats(1e-3, 32.0) | st.sampled_from([1e-3, 0.5, 1.0, 2.0, 32.0])


@given(epsilon=EPSILONS, K=st.integers(2, 65_536), share=st.floats(0.0, 1.0))
@settings(max_examples=80)
def test_threshold_is_the_same_whole_number(node: Node, epsilon: float, K: int, share: float) -> None:
    m = 1 + int(share * (K - 2))
    assert node.ask("threshold", epsilon=epsilon, K=K, m=m) == str(Odds(epsilon, K, m).threshold)


# --- random protocols and records -------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
NUMBERS = (
    st.floats(-1e6, 1e6) | st.integers(-100, 100) | st.floats(-1e-8, 1e-8) | st.sampled_from([1e17, 1.5e300, -2e22])
)


@st.composite
def feature_of(draw: st.DrawFn, name: str) -> NumericFeature | CategoricalFeature:
    missing = draw(st.booleans())
    if draw(st.booleans()):
        return CategoricalFeature(name, draw(st.lists(WORDS, min_size=1, max_size=5, unique=True)), missing=missing)
    low, high = sorted(draw(st.lists(NUMBERS.map(float), min_size=2, max_size=2, unique=True)))
    return NumericFeature(name, low, high, missing=missing)


@st.composite
def some_protocol(draw: st.DrawFn) -> Protocol:
    K = draw(st.integers(2, 40))
    rest: dict[str, Any] = {
        "epsilon": draw(EPSILONS), "K": K, "m": draw(st.integers(1, K - 1)),
        "b": draw(st.sampled_from([0.0, 0.5, 1.0, 3.0]) | st.floats(0.0, 16.0)), "degree": draw(st.integers(0, 1)),
        "completion": draw(st.sampled_from(["slack", "normalise"])),
        "intercept": draw(st.sampled_from([0.3, 1e-3]) | st.floats(0.001, 0.999)),
    }  # fmt: skip
    if rest["completion"] == "slack" and draw(st.booleans()):
        rest["intercept"] = 0.0
    if draw(st.booleans()):
        rest["scale"] = draw(st.floats(1e-3, 1e3) | st.sampled_from([1e-100, 1e-5, 1e-4, 1e16, 1e22, 1e100]))
    if draw(st.booleans()):
        ends = NUMBERS.map(float).filter(lambda end: abs(end) <= 1e49)
        low, high = sorted(
            draw(st.lists(ends, min_size=2, max_size=2).filter(lambda two: abs(two[0] - two[1]) >= 1e-50))
        )
        rest |= {"task": "regression", "label_bounds": (low, high)}
    else:
        labels = WORDS | st.integers(-(2**53), 2**53) | st.floats(-100.0, 100.0)
        rest["classes"] = draw(st.lists(labels, min_size=2, max_size=2, unique_by=lambda label: label))
    if draw(st.booleans()):
        return Protocol(n_features=draw(st.integers(1, 12)), **rest)
    names = draw(st.lists(WORDS, min_size=1, max_size=5, unique=True))
    return Protocol(features=[draw(feature_of(name)) for name in names], **rest)


@st.composite
def some_person(draw: st.DrawFn, protocol: Protocol) -> tuple[Any, Any]:
    label = draw(NUMBERS) if protocol.classes is None else draw(st.sampled_from(protocol.classes))
    if protocol.features is None:
        huge = st.sampled_from([1e300, -1e300, 1.7e308, 1e155, -1e154, 1e-300, 5e-324, -0.0])
        plain = st.floats(-1.0, 1.0) | st.floats(-1e9, 1e9) | st.integers(-9, 9) | huge
        return draw(st.lists(plain, min_size=protocol.n_features, max_size=protocol.n_features)), label
    record = {}
    for feature in protocol.features:
        if feature.missing and draw(st.booleans()):
            record[feature.name] = draw(st.sampled_from([None, math.nan]))
        elif isinstance(feature, NumericFeature):
            record[feature.name] = draw(NUMBERS | st.sampled_from([math.inf, -math.inf, feature.low, feature.high]))
        else:
            record[feature.name] = draw(st.sampled_from(feature.categories) | WORDS)
    return (list(record.values()) if draw(st.booleans()) else record), label


@given(data=st.data())
@settings(max_examples=150)
def test_random_protocols_and_people(node: Node, data: st.DataObject) -> None:
    protocol = data.draw(some_protocol())
    record, label = data.draw(some_person(protocol))
    token = data.draw(st.none() | st.binary(max_size=40))
    random = data.draw(st.binary(min_size=64, max_size=64))

    text = protocol.to_json()
    read = node.ask("protocol", text=text)
    assert (read["id"], read["d"]) == (protocol.id.hex(), protocol.d)
    assert node.ask("encode", text=text, records=[record]) == [bits(protocol.encode(record))]
    randomizer = Randomizer(protocol)
    rest = bytearray(random)

    def taken(size: int) -> bytes:
        first, rest[:size] = bytes(rest[:size]), b""
        return first

    randomizer._random = taken
    wanted = randomizer.report(record, label, token=token).hex()
    given_token = None if token is None else token.hex()
    seen = node.ask("report", text=text, record=record, label=label, token=given_token, random=random.hex())
    assert seen == wanted


# --- the draw ---------------------------------------------------------------------------------------------------------


class TestDraw:
    """With the bytes of the coin chosen, each branch is exact."""

    def report(self, node: Node, coin: int, values: list[int], name: str = "records") -> int:
        tape = b"".join([coin.to_bytes(8, "little"), *(value.to_bytes(4, "little") for value in values)])
        label = Protocol.from_json(TEXTS[name]).classes[1]
        raw = node.ask("report", text=TEXTS[name], record=PERSON, label=label, token="aa", random=tape.hex())
        return int.from_bytes(bytes.fromhex(raw)[20:], "little")

    def groups(self, name: str = "records") -> tuple[list[int], list[int]]:
        protocol = Protocol.from_json(TEXTS[name])
        top = Randomizer(protocol).top(seed_of(protocol.id, b"\xaa"), protocol.encode(PERSON))
        return np.flatnonzero(top).tolist(), np.flatnonzero(~top).tolist()

    def test_the_coin_splits_at_the_threshold(self, node: Node) -> None:
        T = Odds(2.0, 128, 18).threshold
        top, rest = self.groups()
        assert [self.report(node, T - 1, [v]) for v in (0, 17, 18)] == [top[0], top[17], top[0]]
        assert [self.report(node, T, [v]) for v in (0, 109, 110)] == [rest[0], rest[109], rest[0]]
        assert self.report(node, 0, [3]) == top[3]
        assert self.report(node, 2**64 - 1, [3]) == rest[3]

    def test_numbers_that_would_favour_low_indices_are_drawn_again(self, node: Node) -> None:
        top, _ = self.groups()
        limit = 2**32 - 2**32 % 18
        assert self.report(node, 0, [limit - 1]) == top[17]
        assert self.report(node, 0, [limit, 2**32 - 1, 5]) == top[5]

    @pytest.mark.parametrize("z", [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [math.inf, -math.inf, 1.0, 0.0, 0.0, 0.0]], ids=str)
    def test_equal_and_overflowing_scores_rank_alike(self, node: Node, z: list[float]) -> None:
        text = TEXTS["vector normalised"].replace('"n_features":4', '"n_features":5')
        randomizer = Randomizer(Protocol.from_json(text))
        with np.errstate(all="ignore"):
            wanted = [randomizer.top(seed, np.array(z)).astype(int).tolist() for seed in range(40)]
        assert [node.ask("top", text=text, seed=str(seed), z=z) for seed in range(40)] == wanted

    def test_bytes_come_from_the_browser(self, node: Node) -> None:
        answer = node.ask("source", text=TEXTS["records"], record=PERSON, label="yes")
        assert answer["sizes"] == [8, 8, 4]  # seed, coin, place
        assert bytes.fromhex(answer["report"])[12:20] == b"\x07" * 8

    def test_reports_differ(self, node: Node) -> None:
        answers = {node.ask("report", text=TEXTS["records"], record=PERSON, label="yes") for _ in range(20)}
        assert len(answers) == 20


def test_tokens_may_be_texts(node: Node) -> None:
    protocol = Protocol.from_json(TEXTS["records"])
    seed = node.ask("seed", id=protocol.id.hex(), token="Zugang-ä")
    assert seed == str(seed_of(protocol.id, "Zugang-ä".encode()))


# --- what is kept -----------------------------------------------------------------------------------------------------


YES = {"record": PERSON, "label": "yes", "token": "0102"}
NO = {"record": {**PERSON, "age": 20}, "label": "no", "token": "0102"}


class TestOneReport:
    text = TEXTS["records"]
    key = f"sottovoce-report-{Protocol.from_json(TEXTS['records']).id.hex()}"

    def test_a_second_call_returns_the_same_bytes(self, node: Node) -> None:
        answer = node.ask("once", text=self.text, calls=[YES, NO, YES])
        assert len(set(answer["reports"])) == 1
        assert answer["kept"] == {self.key: answer["reports"][0]}  # the report, and no answers

    def test_calls_at_the_same_time_make_one_report(self, node: Node) -> None:
        answer = node.ask("once", text=self.text, calls=[YES] * 8, together=True)
        assert len(set(answer["reports"])) == 1

    def test_tabs_that_answer_at_once_have_one_report_and_its_token(self, node: Node) -> None:
        tokens = [f"a-token-of-tab-{tab}" for tab in range(4)]
        answer = node.ask("tabs", text=self.text, tokens=tokens, record=PERSON, label="yes")
        assert len(set(answer["tokens"])) == 1
        assert all(answer["belong"])
        assert answer["kept"][self.key.replace("report", "token")] == answer["tokens"][0]

    def test_another_token_is_refused(self, node: Node) -> None:
        with pytest.raises(JavaScriptError, match="ParameterError: token is not the one"):
            node.ask("once", text=self.text, calls=[YES, {**YES, "token": "03"}])

    @pytest.mark.parametrize("damage", ["", "00", "zz" * 22, "4c445031" + "00" * 18])
    def test_a_damaged_report_is_not_made_anew(self, node: Node, damage: str) -> None:
        with pytest.raises(JavaScriptError, match="DataError: storage holds no report of this protocol"):
            node.ask("once", text=self.text, calls=[YES], content={self.key: damage})

    def test_a_bad_record_leaves_nothing(self, node: Node) -> None:
        with pytest.raises(JavaScriptError, match="DataError"):
            node.ask("once", text=self.text, calls=[{**YES, "label": "maybe"}])
        assert len(node.ask("once", text=self.text, calls=[YES])["reports"]) == 1


def test_a_device_has_a_bound_of_its_own(node: Node) -> None:
    assert node.ask("report", text=TEXTS["records"], record=PERSON, label="yes", maxEpsilon=2.0)
    with pytest.raises(JavaScriptError, match=r"ParameterError: .*epsilon 2.*maxEpsilon 1\.5"):
        node.ask("report", text=TEXTS["records"], record=PERSON, label="yes", maxEpsilon=1.5)
    with pytest.raises(JavaScriptError, match="ParameterError: maxEpsilon"):
        node.ask("report", text=TEXTS["records"], record=PERSON, label="yes", maxEpsilon=math.nan)


# --- the file of vectors; JavaScript is the second implementation of the written format -------------------------------


def test_the_library_still_writes_the_same_file(tmp_path: Path) -> None:
    """Byte for byte: the format of version 1 is frozen."""
    spec = importlib.util.spec_from_file_location("make_local_vectors", DATA / "make_local_vectors.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    maker.HERE = tmp_path
    maker.main()
    assert (tmp_path / "local_vectors.json").read_bytes() == (DATA / "local_vectors.json").read_bytes()


def test_no_vector_depends_on_the_order_of_sums() -> None:
    """Scores at the edge of the top group are far apart in each, so that any order of sums gives the same report."""
    for entry in VECTORS["reports"]:
        protocol = Protocol.from_json(TEXTS[entry["protocol"]])
        seed = int.from_bytes(bytes.fromhex(entry["report"])[12:20], "little")
        z = protocol.encode(entry["record"])
        for sign in (-1.0, 1.0):
            top = Randomizer(protocol).top(seed, sign * z)
            for error in (1e-10, -1e-10):
                np.testing.assert_array_equal(Randomizer(protocol).top(seed, sign * z * (1 + error)), top)
