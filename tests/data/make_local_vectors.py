"""Write local_vectors.json: what every implementation of the local protocol must reproduce.

    PYTHONPATH=tests python tests/data/make_local_vectors.py

The file is checked by ``tests/unit/local/test_javascript.py``; it changes only with the version of the protocol.
"""

import json
from pathlib import Path

import numpy as np

from sottovoce.local import CategoricalFeature, NumericFeature, Protocol, Randomizer
from sottovoce.local.candidates import normal_quantile
from sottovoce.local.wire import seed_of
from support.simulated_reports import candidates

HERE = Path(__file__).parent
GOLDEN, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
MASK = 2**64 - 1


def bits(values):
    """Return the 64 bits of each double as 16 hexadecimal digits, most significant first."""
    return [f"{int(word):016x}" for word in np.atleast_1d(np.asarray(values, np.float64)).view(np.uint64)]


def unshift(x, count):
    out = x
    for _ in range(64 // count + 1):
        out = x ^ (out >> count)
    return out


def seed_for(k, counter=1):
    """Return a seed whose number ``counter`` has the top 52 bits k: the mixing can be undone."""
    x = unshift((k << 12) & MASK, 31)
    x = unshift(x * pow(MIX_2, -1, 2**64) & MASK, 27)
    x = unshift(x * pow(MIX_1, -1, 2**64) & MASK, 30)
    return (x - counter * GOLDEN) & MASK


def record_protocol(completion="normalise", **rest):
    features = [
        NumericFeature("age", 17, 90),
        CategoricalFeature("work", ["private", "public", "none"]),
        NumericFeature("hours", 0, 99.5, missing=True),
        CategoricalFeature("école", ["A", "ß"], missing=True),
    ]
    return Protocol(features=features, completion=completion, **rest)


def protocols():
    return {
        "vector": Protocol(n_features=5, completion="slack", epsilon=1.0, K=64, m=13, b=1.0),
        "vector without intercept": Protocol(
            n_features=3, completion="slack", epsilon=4.0, intercept=0.0, scale=2.5, K=128, m=5, b=0.0
        ),
        "vector normalised": Protocol(n_features=4, epsilon=0.1, completion="normalise", K=7, m=3, b=0.5),
        "records": record_protocol(epsilon=2.0, classes=["no", "yes"], K=128, m=18, b=1.0),
        "records with slack": record_protocol(epsilon=2.0, completion="slack", K=256, m=1, b=2.0, degree=0),
        "regression": record_protocol(epsilon=8.0, task="regression", label_bounds=(-1.5, 40), K=256, m=1, b=0.0),
    }


RECORDS = [
    {"age": 17, "work": "public", "hours": 40, "école": "ß"},
    {"age": 44.25, "work": "none", "hours": None, "école": None},
    {"age": 200, "work": "elsewhere", "hours": -3.5, "école": "A"},
]


def vectors_of(n):
    rng = np.random.default_rng(n)
    return [[0.0] * n, [1.0] + [0.0] * (n - 1), list(rng.standard_normal(n)), list(0.1 * rng.standard_normal(n))]


def main() -> None:
    rng = np.random.default_rng(1)
    ks = [0, 1, 2, 2**28, 2**30 + 7, 2**47, 2**48 * 3 // 5, 2**51 - 1, 2**51, 2**52 - 2, 2**52 - 1]
    ks += [int(k) for k in rng.integers(0, 2**52, 20)]
    out = {
        "quantile": [
            {"k": str(k), "bits": bits(normal_quantile(np.array([(2 * k + 1) * 2.0**-53])))[0]} for k in sorted(ks)
        ],
        "candidates": [],
        "protocols": [],
        "reports": [],
    }
    seeds = [(0, 0, 4), (1, 0, 4), (2**64 - 1, 255, 7), (seed_for(0), 0, 3), (seed_for(2**52 - 1), 0, 3)]
    seeds += [(int(rng.integers(0, 2**64, dtype=np.uint64)), int(rng.integers(0, 65536)), 5) for _ in range(5)]
    for seed, index, d in seeds:
        row = candidates(np.array([seed], np.uint64), np.array([index]), d)[0]
        out["candidates"].append({"seed": str(seed), "index": index, "d": d, "bits": bits(row)})
    for name, protocol in protocols().items():
        records = vectors_of(protocol.n_features) if protocol.features is None else RECORDS
        out["protocols"].append({
            "name": name,
            "text": protocol.to_json(),
            "id": protocol.id.hex(),
            "threshold": str(Randomizer(protocol).odds.threshold),
            "encoded": [{"record": record, "bits": bits(protocol.encode(record))} for record in records],
        })  # fmt: skip
        for number, record in enumerate(records):
            for token in (None, b"token %d" % number):
                label = [-1.5, 7.25, 40.0][number % 3] if protocol.classes is None else protocol.classes[number % 2]
                tape = rng.bytes(64)
                out["reports"].append(report(name, protocol, record, label, token, tape))
    (HERE / "local_vectors.json").write_text(json.dumps(out, indent=1, ensure_ascii=True) + "\n", encoding="ascii")


def report(name, protocol, record, label, token, tape):
    randomizer = Randomizer(protocol)
    rest = bytearray(tape)

    def random(size):
        taken, rest[:size] = bytes(rest[:size]), b""
        return taken

    randomizer._random = random
    raw = randomizer.report(record, label, token=token)
    return {
        "protocol": name,
        "record": record,
        "label": label,
        "token": None if token is None else token.hex(),
        "seed of token": None if token is None else str(seed_of(protocol.id, token)),
        "random": tape.hex(),
        "report": raw.hex(),
    }


if __name__ == "__main__":
    main()
