"""Strange requests for a collector: good ones, nearly good ones, and noise."""

import base64
import json
import random

from support.collector import report

TYPES = [
    "application/json",
    "application/octet-stream",
    "application/json; charset=utf-16",
    "text/plain",
    "",
    "x" * 300,
]
TOKENS = ["", "a", "x" * 4_000, "~" * 128, "a b" * 8]
SCALARS = [None, True, 0, -1, 1e308, 10**400, "", "a", "é", "\ud800", "\0", "A" * 32, "LDP1", "a" * 16, "a" * 5_000]


def strange_request(rng: random.Random) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of one request."""
    token = "".join(rng.choices("abcdefghij0123456789_-", k=16))
    good = report(token, rng.randrange(8))
    if rng.random() < 0.4:
        body = changed(rng, good)
        kind = "application/octet-stream"
    else:
        body = changed(rng, json.dumps(strange_value(rng, token, good, depth=3)).encode())
        kind = "application/json"
    if rng.random() < 0.1:
        kind = rng.choice(TYPES)
    headers = {"Content-Type": kind}
    if rng.random() < 0.9:
        headers["Sottovoce-Token"] = token if rng.random() < 0.8 else rng.choice(TOKENS)
    return body, headers


def strange_value(rng: random.Random, token: str, good: bytes, depth: int) -> object:
    """Return a value of JSON that looks like a form, more or less."""
    chance = rng.random()
    if chance < 0.4:
        text = base64.b64encode(changed(rng, good) if rng.random() < 0.5 else good).decode()
        value = {"token": token, "report": text}
        if rng.random() < 0.3:
            value[rng.choice(["token", "report", "more"])] = rng.choice(SCALARS)
        if rng.random() < 0.1:
            del value[rng.choice(["token", "report"])]
        return value
    if chance < 0.8 and depth:
        return [
            strange_value(rng, token, good, depth - 1) for _ in range(rng.choice([0, 1, 2, 5, 30]) if depth > 2 else 2)
        ]
    if chance < 0.85 and depth:
        return {rng.choice(["token", "report", "a", ""]): strange_value(rng, token, good, depth - 1)}
    return rng.choice(SCALARS)


def changed(rng: random.Random, body: bytes) -> bytes:
    """Return the bytes with a few of them lost, repeated, changed, or with noise instead."""
    chance = rng.random()
    if chance < 0.3 or not body:
        return body
    place = rng.randrange(len(body))
    if chance < 0.5:
        return body[:place] + bytes([rng.randrange(256)]) + body[place + 1 :]
    if chance < 0.6:
        return body[:place]
    if chance < 0.7:
        return body + body[place:]
    if chance < 0.75:
        return rng.randbytes(rng.choice([0, 1, 21, 22, 23, 1_024, 1_025]))
    if chance < 0.77:
        return body[:1] * rng.choice([10_000, 300_000])
    return body[:place] + rng.randbytes(3) + body[place:]
