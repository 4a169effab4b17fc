"""Start-up kits of sites without keys, for tests that connect nothing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sottovoce.ledger import Ledger
from sottovoce.vertical.flare.kit import Kit

__all__ = ["SCHEMA", "make_ledger", "make_site", "people"]

FEDERATION = """\
name = "trial"
[coordinator]
name = "insurer"
host = "localhost"
port = 8140
[[party]]
name = "north"
[[party]]
name = "bank"
[[party]]
name = "notary"
helper = true
"""
SCHEMA = """\
format = "sottovoce-schema"
version = 1
[columns.age]
type = "numeric"
bounds = [0, 100]
[columns.visits]
type = "numeric"
bounds = [0, 10]
"""
TARGET = '[columns.sick]\ntype = "categorical"\ncategories = ["no", "yes"]\n'


def people(n: int = 40, *, labelled: bool = False, seed: int = 0) -> pd.DataFrame:
    """Return a table of made-up people."""
    rng = np.random.default_rng(seed)
    table: dict[str, Any] = {
        "person": [f"p{i:03}" for i in range(n)],
        "age": rng.integers(0, 100, n),
        "visits": rng.integers(0, 10, n),
    }
    if labelled:
        table["sick"] = rng.choice(["no", "yes"], n)
    return pd.DataFrame(table)


def make_site(
    folder: Path, *, name: str = "north", site: str = '[data]\ntable = "people.csv"\nschema = "people.toml"\n'
    'id = "person"\n', schema: str | None = None, table: pd.DataFrame | None = None,
) -> Kit:  # fmt: skip
    """Make a kit of ``name`` with its table, and return it."""
    coordinator = name == "insurer"
    for part in ("startup", "state", "identity"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "federation.toml").write_text(FEDERATION)
    for file in ("certificate.pem", "key.pem", "authority.pem"):
        (folder / "identity" / file).touch()
    if coordinator:
        (folder / "startup" / "fed_server.json").write_text("{}")
    else:
        (folder / "startup" / "fed_client.json").write_text(json.dumps({"client": {"fqsn": name}}))
    if schema is None:
        target = 'target = "sick"\n[columns.age]' if coordinator else "[columns.age]"
        schema = SCHEMA.replace("[columns.age]", target) + (TARGET if coordinator else "")
    (folder / "people.toml").write_text(schema)
    (folder / "site.toml").write_text(site)
    table = people(labelled=coordinator) if table is None else table
    table.to_csv(folder / "people.csv", index=False)
    return Kit.open(folder)


def make_ledger(folder: Path, *, epsilon: float = 1.0) -> Ledger:
    """Make the ledger of a site, with a budget for the data set "people"."""
    ledger = Ledger(f"sqlite:///{folder}/ledger.db")
    ledger.create("people", epsilon=epsilon, delta=1e-6, adjacency="replace-one", unit="one person's row here")
    return ledger
