"""Start-up kits of sites, for tests that connect nothing: of their keys only those that sign."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sottovoce.ledger import Ledger
from sottovoce.vertical.engines.identity import Identity
from sottovoce.vertical.flare.hardening.envelope import CoordinatorEnd
from sottovoce.vertical.flare.kit import Kit
from support.authority import Authority

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
KITS = """
name = "{name}"
[coordinator]
name = "insurer"
host = "localhost"
port = {port}
[[party]]
name = "north-west"
[[party]]
name = "bank"
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


@cache
def authority() -> Authority:
    """Return the one that has signed the identities of all kits of this process."""
    return Authority("trial")


class Coordinator:
    """The coordinator's end of the line with a door; as a party for `support.party.Line`."""

    name = "north"

    def __init__(
        self, door: Any, run: str = "job1", *, known: str = "", told: Any = lambda entry: None, purpose: str = "train"
    ) -> None:
        with tempfile.TemporaryDirectory() as folder:
            identity = Identity(authority().identity(Path(folder), "insurer"))
        self.door, self.end = door, CoordinatorEnd(identity, "insurer", self.name, run, known, told, purpose)

    def handle(self, raw: bytes) -> Any:
        """Return the answer to a request, out of its envelope."""
        return self.end.ask(raw, 1.0, lambda sealed: self.door.answer(sealed, "server"))


def people(n: int = 40, *, labelled: bool = False, seed: int = 0) -> pd.DataFrame:
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
    (folder / "state").mkdir(parents=True, exist_ok=True)
    (folder / "federation.toml").write_text(FEDERATION)
    authority().identity(folder / "identity", name)
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
    ledger.create("people", epsilon=epsilon, delta=1e-6, adjacency="replace-one")
    return ledger
