#!/usr/bin/env python3
"""Read a receipt of sottovoce with Python 3.9 or later and nothing else: no library, no network, no other file.

Written for whoever checks what may leave a research room: copy this one file there, read it, and run

    python receipt_reader.py model.receipt.json

on a receipt, or on the file of a model or an evaluation, which holds one. It prints what is promised, what that rests
on and what is not covered; then what it checked: the structure, the sentence, the digests, and the promise against the
noise that is recorded. Unlike `sottovoce receipt verify` it does not plan the run again, and it checks no signature.
The exit code is 0 where nothing that it checks is wrong, and 2 otherwise. The format: docs/receipt.schema.json.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, Context
from typing import Any, Final, NamedTuple

__all__ = ["costs", "epsilon_of", "findings", "fingerprint", "load", "main", "statement"]

DEEPEST, LARGE, MOST_LOSSES = 64, sys.float_info.max, 1_024  # levels of an event; numbers; values of the loss listed


class Between(NamedTuple):
    low: float  # a whole number where only whole ones are meant
    high: float


# the format: a value equals a text, matches a pattern, is in a range, is of a type, or fits one of a tuple
POSITIVE, DIGEST = Between(math.ulp(0.0), 1e300), re.compile("[0-9a-f]{64}")
ENTRIES: Final[dict[str, Any]] = {
    "format": "sottovoce-receipt", "version": Between(2, 2), "statement": str, "epsilon": (Between(0.0, LARGE), "inf"),
    "delta": Between(0.0, 1.0 - 2.0**-53), "adjacency": ("zero-out", "add-remove", "replace-one"), "unit": str,
    "mechanism": str, "releases": [str], "assumptions": [str], "not_covered": [str], "parameters": dict, "seeded": bool,
    "accountant": str, "proof": str, "sottovoce": re.compile("[0-9][0-9A-Za-z.+!_-]{0,39}"), "event": dict,
    "day": (re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"), None), "model": (DIGEST, None),
    "schema": ({"sha256": DIGEST, "text": str}, None), "checksum": DIGEST,
    "ledger": (re.compile("no ledger was charged(; fit [1-9][0-9]{0,8} of this table in one run)?"),
               dict.fromkeys(("ledger", "dataset", "charge", "entry"), str)),
    "signature": (dict.fromkeys(("algorithm", "public_key", "value"), str), None),
}  # fmt: skip
GAUSSIAN = {"kind": "gaussian", "noise_multiplier": (Between(math.ulp(0.0), LARGE), "inf")}
EVENTS: Final[dict[str, dict[str, Any]]] = {
    "nothing": {"kind": str}, "non-private": {"kind": str}, "gaussian": GAUSSIAN,
    "poisson-sampled": {"kind": str, "sampling_rate": Between(0.0, 1.0), "event": GAUSSIAN},
    "pure": {"kind": str, "epsilon": POSITIVE}, "randomized-response": {"kind": str, "epsilon": POSITIVE},
    "bounded-range": {"kind": str, "epsilon": Between(math.ulp(0.0), 1e6)},
    "repeat-and-select": {"kind": str, "mean": Between(1.0, 1e6), "event": dict},
    "repeated": {"kind": str, "count": Between(0, 2**53), "event": dict}, "composed": {"kind": str, "events": [dict]},
}  # fmt: skip


def fits(value: Any, wanted: Any) -> bool:
    """Return whether a value is what the format wants."""
    if isinstance(wanted, Between):
        return type(value) in (int, type(wanted.low)) and wanted.low <= value <= wanted.high
    if isinstance(wanted, tuple):
        return any(fits(value, each) for each in wanted)
    if isinstance(wanted, list):
        return isinstance(value, list) and all(fits(each, wanted[0]) for each in value)
    if isinstance(wanted, dict):
        return isinstance(value, dict) and {*value} == {*wanted} and all(fits(value[k], wanted[k]) for k in wanted)
    if isinstance(wanted, re.Pattern):
        return isinstance(value, str) and wanted.fullmatch(value) is not None
    return type(value) is wanted if isinstance(wanted, type) else type(value) is type(wanted) and value == wanted


def load(path: str) -> dict[str, Any]:
    """Return the content of a file; a name that is given twice, NaN and infinity are refused."""
    with open(path, "rb") as file:  # noqa: PTH123
        text = file.read().decode("utf-8")
    data = json.loads(text, object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite)
    if not isinstance(data, dict) or not ("guarantee" in data or data.get("format") == "sottovoce-receipt"):
        raise ValueError("it is neither a receipt nor the file of a model or an evaluation, which holds one")
    return data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name is given twice")
    return dict(pairs)


def _finite(digits: str) -> float:
    if not math.isfinite(float(digits)):
        raise ValueError(f"{digits[:20]} is not allowed")
    return float(digits)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest(data: object) -> str:
    """Return the SHA-256 of the one text that stands for data: sorted names, no spaces, ASCII."""
    return sha256(json.dumps(data, sort_keys=True, separators=(",", ":")))


def fingerprint(receipt: dict[str, Any]) -> str:
    """Return the SHA-256 of the file before it was signed: what a signature is made over."""
    unsigned = {name: None if name == "signature" else value for name, value in receipt.items()}
    return sha256(json.dumps(unsigned, indent=2, ensure_ascii=False) + "\n")


def costs(event: Any, depth: int = DEEPEST) -> Counter[tuple[str, float]]:
    """Count the releases of an event by their kind and number: Gaussian noise multiplier, or pure epsilon."""
    kind = event.get("kind")
    if not isinstance(kind, str) or kind not in EVENTS or depth == 0 or not fits(event, EVENTS[kind]):
        raise ValueError(f"an event is unknown, incomplete, out of range or more than {DEEPEST} deep: {event!r:.100}")
    found: Counter[tuple[str, float]] = Counter()
    for part in event.get("events", [event["event"]] if "event" in event else []):
        found.update(costs(part, depth - 1))
    if kind == "repeated":
        return Counter({release: event["count"] * times for release, times in found.items() if event["count"]})
    if kind == "poisson-sampled" and event["sampling_rate"] < 1:
        return Counter({("sampled", number): 1 for _, number in found if event["sampling_rate"]})
    if kind == "repeat-and-select" and event["mean"] != 1 and found and ("non-private", 0.0) not in found:
        return Counter({("searched", 0.0): 1})
    number = event.get("noise_multiplier", event.get("epsilon", 0.0))
    if kind in ("gaussian", "pure", "randomized-response", "bounded-range", "non-private") and number != "inf":
        found["pure" if kind == "randomized-response" else kind, float(number)] += 1
    return found


def epsilon_of(found: Counter[tuple[str, float]], delta: float, *, worst: bool) -> float:
    """Return epsilon at delta of releases, each chosen with those before it in sight; a bound on it, where not exact.

    Gaussian releases of noise multipliers s compose to one of shift mu = sqrt(sum 1/s^2) (Dong, Roth, Su 2019). Pure
    ones are dominated by randomised responses (Kairouz, Oh, Viswanath 2015), whose losses take values l with chances
    P(l), so that delta(epsilon) = sum over l of P(l) delta_mu(epsilon - l). What has no such closed form is left out,
    or counted as its ``worst``: secret samples as whole tables, choices as pure ones, many losses as the largest.
    """
    as_gaussian, as_pure = {"gaussian", "sampled" * worst}, {"pure", "bounded-range" * worst}
    counted = [(kind, number, float(min(times, 2**1000))) for (kind, number), times in found.items()]
    shifts = [times / noise / noise for kind, noise, times in counted if kind in as_gaussian]
    pure = [(each, times) for kind, each, times in counted if kind in as_pure]
    mu, added = math.sqrt(math.fsum(shifts)), math.fsum(number * times for number, times in pure)
    if mu == math.inf or added == math.inf or (mu > 0.0 and delta == 0.0):
        return math.inf
    losses: dict[float, float] = {0.0: 1.0}  # the chance of each
    if delta == 0.0 or math.prod(times + 1.0 for _, times in pure) > MOST_LOSSES:
        losses, pure = {added if worst or delta == 0.0 else 0.0: 1.0}, []
    for epsilon, times in pure:
        more: dict[float, float] = {}
        for flips in range(int(times) + 1):
            ways = math.lgamma(times + 1) - math.lgamma(flips + 1) - math.lgamma(times - flips + 1)
            chance = math.exp(ways - times * math.log1p(math.exp(-epsilon)) - flips * epsilon)
            for loss, share in losses.items():
                value = loss + epsilon * (times - 2 * flips)
                more[value] = more.get(value, 0.0) + share * chance
        losses = more

    def holds(epsilon: float) -> bool:
        return math.fsum(share * gaussian_delta(mu, epsilon - loss) for loss, share in losses.items()) <= delta

    low, high = -1.0, 0.0
    while not holds(high):
        low, high = high, 2.0 * high + 1.0
    while low < (middle := 0.5 * (low + high)) < high and high > 0.0:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return Phi(a) - e^epsilon Phi(a - mu) with a = mu/2 - epsilon/mu, without overflow or cancellation."""
    if epsilon < 0.0:
        return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(mu, -epsilon)
    if mu == 0.0:
        return 0.0
    a = 0.5 * mu - epsilon / mu
    density = math.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
    above = 0.5 * math.erfc(-a / math.sqrt(2.0)) if a > 0.0 else density * _mills(-a)
    return above - density * _mills(mu - a)


def _mills(x: float) -> float:
    """Return Phi(-x) / phi(x) for x >= 0, by Laplace's continued fraction where erfc has few digits left."""
    if x < 6.0:
        return math.sqrt(0.5 * math.pi) * math.exp(0.5 * x * x) * math.erfc(x / math.sqrt(2.0))
    value = x
    for place in range(60, 0, -1):
        value = x + place / value
    return 1.0 / value


def findings(data: dict[str, Any]) -> list[tuple[str, bool | None, str]]:
    """Return what was looked at, whether it is right (None: this reader cannot tell), and why."""
    receipt = data.get("guarantee", data)
    if not isinstance(receipt, dict) or not fits(receipt.get("version"), ENTRIES["version"]):
        return [("structure", False, "not a receipt of version 2: for a later one take a later reader")]
    wrong = {*receipt} ^ {*ENTRIES} or {name for name in ENTRIES if not fits(receipt[name], ENTRIES[name])}
    if wrong:
        return [("structure", False, f"missing, in no receipt, or out of range: {', '.join(map(repr, sorted(wrong)))}")]
    try:
        found = costs(receipt["event"])
    except ValueError as error:
        return [("structure", False, str(error))]
    means, promised, delta = statement(receipt), float(receipt["epsilon"]), receipt["delta"]
    least = math.inf if ("non-private", 0.0) in found else epsilon_of(found, delta, worst=False)
    most = math.inf if ("searched", 0.0) in found else max(least, epsilon_of(found, delta, worst=True))
    room = promised * (1.0 + 1e-8) + 1e-12  # the last digits are rounded
    spent = f"{least:.9g}" if least == most else f"{least:.9g} to {most:.9g}, and only sottovoce can say what exactly,"
    told = [
        ("structure", True, "a receipt of version 2"),
        ("statement", receipt["statement"] == means, f"the numbers mean: {means}"),
        ("promise against event", None if least <= room < most else least <= room,
         f"the event costs epsilon = {spent} at delta = {delta:.9g}; promised is {promised:.9g}"),
    ]  # fmt: skip
    body = {name: value for name, value in receipt.items() if name not in ("checksum", "signature")}
    told.append(("checksum", receipt["checksum"] == digest(body), "of all other entries but the signature"))
    parts = data.get("weights" if data.get("format") == "sottovoce-local-model" else "fitted")
    if schema := receipt["schema"]:
        told.append(("schema", schema["sha256"] == sha256(schema["text"]), "digest of its text"))
    if parts is not None and data is not receipt:
        told.append(("model", receipt["model"] == digest(parts), "digest of the coefficients in this file"))
    return told


def statement(receipt: dict[str, Any]) -> str:
    """Return the promise as one sentence, with no bound rounded down."""
    epsilon, delta, unit = float(receipt["epsilon"]), receipt["delta"], in_one_line(receipt["unit"])
    if receipt["event"]["kind"] == "non-private":
        return "NOT PRIVATE: this model was trained without noise (epsilon = inf)."
    if epsilon == math.inf:
        return f"NOT PRIVATE: at delta = {delta:.6g} the releases keep to no epsilon (epsilon = inf)."
    seeded = (
        " The noise was drawn from a given random_state: NOT PRIVATE against anyone who knows or guesses the seed, nor "
        "if the seed is used twice."
    ) * receipt["seeded"]
    up = Context(6, ROUND_CEILING).create_decimal_from_float
    both = ", ".join(f"{each if float(f'{each:.6g}') >= each else float(up(each)):.6g}" for each in (epsilon, delta))
    return f"({both})-differential privacy for {unit}, adjacency {receipt['adjacency']}.{seeded}"


def in_one_line(text: str) -> str:
    """Return a text with what a terminal obeys, or nobody sees, spelt out."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def sections(receipt: dict[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield headings and lines: first what is promised, last what the receipt belongs to."""
    epsilon, delta = float(receipt["epsilon"]), receipt["delta"]
    times, slip = math.exp(min(epsilon, 700.0)), f", but for a slip of probability {delta:.3g}" if delta else ""
    yield "unit", [receipt["unit"]]
    yield "promise", [statement(receipt)]
    words = f"nothing becomes more than {times:.3g} times as likely by one unit{slip}"
    yield "in words", ["nothing is promised" if epsilon == math.inf else words]
    yield "rests on", receipt["assumptions"]
    yield "not covered", receipt["not_covered"]
    yield "released", receipt["releases"]
    yield "made by", [f"{receipt['mechanism']}, sottovoce {receipt['sottovoce']}", f"proof: {receipt['proof']}"]
    ties = {name: receipt[name] for name in ("day", "model", "ledger", "signature")}
    ties |= {"table": receipt["parameters"].get("name of the table (not checked)"), "fingerprint": fingerprint(receipt)}
    yield "belongs to", [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in ties.items()]


NOT_CHECKED: Final = (
    "whether a run of these parameters has this noise and these words: `sottovoce receipt verify` plans it again",
    "the signature: `sottovoce receipt verify --public-key` does. Without one anybody can write such a file",
    "whether what it rests on is so, whether the noise was random, and what else was released about the same people",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what the file in the arguments says, and what was checked."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(arguments) == 1 else 2
    try:
        data = load(arguments[0])
        found = findings(data)
        told = [*sections(data.get("guarantee", data))] if found[0][1] else []
    except (OSError, ValueError, RecursionError) as error:
        print(in_one_line(f"WRONG: {arguments[0]}: not a receipt in JSON: {error}. Give the file beside the page."))
        return 2
    marks, coding = {True: "ok", False: "WRONG", None: "NOT ADDED UP"}, sys.stdout.encoding or "utf-8"
    told += [("checked", [f"{name}, {marks[passed]}: {detail}" for name, passed, detail in found])]
    for heading, lines in [*told, ("not checked", NOT_CHECKED)]:
        print(heading.upper())
        for line in lines:
            text = textwrap.fill(in_one_line(line), 100, initial_indent="  - ", subsequent_indent="    ")
            print(text.encode(coding, "backslashreplace").decode(coding))
    wrong = any(passed is False for _, passed, _ in found)
    print("\nSomething is WRONG: see above." if wrong else "\nNothing that was checked is wrong.")
    return 2 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
