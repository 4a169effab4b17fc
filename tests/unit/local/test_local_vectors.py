"""The shared test vectors: what the library does now, and a second implementation of the written format."""

import hashlib
import importlib.util
import json
import math
import struct
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest

from sottovoce.local import Protocol, Randomizer
from sottovoce.local import candidates as constants

DATA = Path(__file__).parents[2] / "data"
VECTORS = json.loads((DATA / "local_vectors.json").read_text())
PROTOCOLS = {entry["name"]: entry for entry in VECTORS["protocols"]}


def bits(value):
    return struct.pack(">d", value).hex()


# --- the format again, from docs/guide/local_format.md, one number at a time ----------------------------------------


def horner(coefficients, x):
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def logarithm(t):
    a, e = math.frexp(t)
    if a < 0.7071067811865476:
        a, e = a + a, e - 1
    f = (a - 1.0) / (a + 1.0)
    return e * 0.6931471805599453 + f * horner([2.0 / (2 * k + 1) for k in range(12)], f * f)


def quantile(k):
    u = (k + 0.5) * 2.0**-52
    q = u - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return q * (horner(constants.CENTRE_TOP, r) / horner(constants.CENTRE_BOTTOM, r))
    r = math.sqrt(-logarithm(min(u, 1.0 - u)))
    if r <= 5.0:
        r -= 1.6
        v = horner(constants.NEAR_TOP, r) / horner(constants.NEAR_BOTTOM, r)
    else:
        r -= 5.0
        v = horner(constants.FAR_TOP, r) / horner(constants.FAR_BOTTOM, r)
    return -v if q < 0 else v


def candidate(seed, j, d):
    out = []
    for i in range(d):
        x = (seed + (j * d + i + 1) * 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        x = x ^ (x >> 31)
        out.append(quantile(x >> 12))
    return out


def position(v, low, high):
    v = min(max(v, low), high)
    return ((v - low) - (high - v)) / (high - low)


def unit_vector(document, record):
    if "features" in document:
        row = []
        for feature in document["features"]:
            value = record[feature["name"]]
            if feature["type"] == "numeric":
                own = [0.0 if value is None else position(value, feature["low"], feature["high"])]
            else:
                own = [float(value == category) for category in feature["categories"]]
            row += [*own, float(value is None)] if feature["missing"] else own
    else:
        row = list(record)
    row, c = [entry / document["scale"] for entry in row], document["intercept"]
    if document["completion"] == "normalise":
        row.append(c)
    square = 0.0
    for entry in row:
        square += entry * entry
    if document["completion"] == "normalise":
        return [entry / math.sqrt(square) for entry in row]
    slack = 0.0
    if square > 1.0:
        row = [entry / math.sqrt(square) for entry in row]
    else:
        slack = math.sqrt(1.0 - square)
    h = math.sqrt(1.0 - c * c)
    return [*(h * entry for entry in row), *([c] if c > 0 else []), h * slack]


def threshold(document):
    with localcontext() as context:
        context.prec = 60
        K, m = document["K"], document["m"]
        low = (-Decimal(document["epsilon"])).exp()
        return int(2**64 * m / (m + (K - m) * low))


def make_report(text, record, label, token, tape):
    document, taken = json.loads(text), iter(tape)

    def whole(size):
        return int.from_bytes(bytes(next(taken) for _ in range(size)), "little")

    identity = hashlib.sha256(text.encode()).digest()[:8]
    z = unit_vector(document, record)
    if document["task"] == "regression":
        p = 0.5 * (1.0 + position(label, *document["label_bounds"]))
        sign = 1.0 if (whole(8) >> 11) * 2.0**-53 < p else -1.0
    else:
        sign = [-1.0, 1.0][document["classes"].index(label)]
    if token is None:
        seed = whole(8)
    else:
        digest = hashlib.sha256(b"sottovoce local seed 1\0" + identity + token).digest()
        seed = int.from_bytes(digest[:8], "little")
    scores = []
    for j in range(document["K"]):
        t = sum(a * sign * b for a, b in zip(candidate(seed, j, len(z)), z, strict=True))
        scores.append(t + document["b"] * (t * t - 1.0) * 0.7071067811865476)
    ranked = sorted(range(document["K"]), key=lambda j: (-scores[j], j))
    top = sorted(ranked[: document["m"]])
    if whole(8) >= threshold(document):
        top = sorted(ranked[document["m"] :])
    while (v := whole(4)) >= 2**32 - 2**32 % len(top):
        pass
    return b"LDP1" + identity + struct.pack("<QH", seed, top[v % len(top)])


# --- the second implementation against the file, and the library against the file -----------------------------------


def test_the_second_implementation_agrees_with_the_file():
    for entry in VECTORS["quantile"]:
        assert bits(quantile(int(entry["k"]))) == entry["bits"]
    for entry in VECTORS["candidates"]:
        assert [bits(v) for v in candidate(int(entry["seed"]), entry["index"], entry["d"])] == entry["bits"]
    for protocol in PROTOCOLS.values():
        document = json.loads(protocol["text"])
        assert hashlib.sha256(protocol["text"].encode()).digest()[:8].hex() == protocol["id"]
        assert str(threshold(document)) == protocol["threshold"]
        for entry in protocol["encoded"]:
            assert [bits(v) for v in unit_vector(document, entry["record"])] == entry["bits"]


@pytest.mark.parametrize("entry", VECTORS["reports"], ids=lambda entry: entry["protocol"])
def test_the_second_implementation_makes_the_same_reports(entry):
    token = None if entry["token"] is None else bytes.fromhex(entry["token"])
    text = PROTOCOLS[entry["protocol"]]["text"]
    raw = make_report(text, entry["record"], entry["label"], token, bytes.fromhex(entry["random"]))
    assert raw.hex() == entry["report"]


def test_the_library_still_writes_the_same_file(tmp_path):
    """Byte for byte: the format of version 1 is frozen."""
    spec = importlib.util.spec_from_file_location("make_local_vectors", DATA / "make_local_vectors.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    maker.HERE = tmp_path
    maker.main()
    assert (tmp_path / "local_vectors.json").read_bytes() == (DATA / "local_vectors.json").read_bytes()


def test_no_vector_depends_on_the_order_of_sums():
    """Scores at the edge of the top group are far apart in each, so that any order of sums gives the same report."""
    for entry in VECTORS["reports"]:
        protocol = Protocol.from_json(PROTOCOLS[entry["protocol"]]["text"])
        seed = int.from_bytes(bytes.fromhex(entry["report"])[12:20], "little")
        z = protocol.encode(entry["record"])
        for sign in (-1.0, 1.0):
            top = Randomizer(protocol).top(seed, sign * z)
            for error in (1e-10, -1e-10):
                np.testing.assert_array_equal(Randomizer(protocol).top(seed, sign * z * (1 + error)), top)
