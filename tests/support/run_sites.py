"""Three sites of a federation in this process: real settings, tables and doors; calls take the place of a network."""

from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.hardening.envelope import _parts
from sottovoce.vertical.flare.hardening.gate import Door
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.parties import _asked
from sottovoce.vertical.flare.programs import execute
from sottovoce.vertical.flare.runs import RunSpec, new_run_name
from support.site import authority

N = 60
NAMES = ("insurer", "north", "bank")


def kit_of(folder: Path, name: str, parties: tuple[str, ...] = NAMES[1:]) -> Kit:
    """Return a kit of which there is nothing but the folder."""
    facts = Federation(name="trial", coordinator=NAMES[0], host="localhost", port=1, parties=parties)
    kind = "coordinator" if name == NAMES[0] else "party"
    return Kit(folder=folder / name, kind=kind, name=name, federation=facts)


def _make_site(folder: Path, m: int, X: Any, y: Any, *, ids: bool, more: str = "") -> Kit:
    kit = kit_of(folder, NAMES[m])
    kit.state.mkdir(parents=True)
    authority().identity(kit.identity, kit.name)
    columns = [f"x{2 * m}", f"x{2 * m + 1}"]
    order = np.random.default_rng(m).permutation(N) if ids else np.arange(N)
    for name, rows in (("people", order), ("new", order[: N // 2] if not ids else order)):
        head = ["person"] * ids + columns + ["y"] * (m == 0)
        lines = [
            [f"p{i:03}"] * ids + [repr(float(x)) for x in X[i, 2 * m : 2 * m + 2]] + [y[i]] * (m == 0) for i in rows
        ]
        (kit.folder / f"{name}.csv").write_text("\n".join(",".join(line) for line in [head, *lines]) + "\n")
    schema = 'format = "sottovoce-schema"\nversion = 1\n' + 'target = "y"\n' * (m == 0)
    schema += "".join(f'[columns.{name}]\ntype = "numeric"\nbounds = [-1, 1]\n' for name in columns)
    schema += '[columns.y]\ntype = "categorical"\ncategories = ["no", "yes"]\n' * (m == 0)
    (kit.folder / "people.toml").write_text(schema)
    id_line = 'id = "person"\n' * ids
    kit.site_file.write_text(
        f'[data]\ntable = "people.csv"\nschema = "people.toml"\n{id_line}[scoring]\ntable = "new.csv"\n{id_line}'
        f'[allow]\nanswers = ["exact", "local-models", "frank-wolfe", "alignment", "score"]\n{more}'
    )
    return kit


class Sites:
    """Three sites; the parties answer behind their doors, as their processes do."""

    def __init__(self, folder: Path, *, ids: bool = False, more: str = "") -> None:
        rng = np.random.default_rng(8)
        self.X = rng.uniform(-1, 1, (N, 6))
        self.y = np.where(self.X.sum(axis=1) + 0.5 * rng.normal(size=N) > 0, "yes", "no")
        self.kits = [_make_site(folder, m, self.X, self.y, ids=ids, more=more) for m in range(3)]
        self.home = self.kits[0]
        self.doors = {kit.name: Door(kit) for kit in self.kits[1:]}

    def run(self, spec: RunSpec, *, cut: int | None = None) -> dict[str, Any]:
        """Do a run; ``cut`` breaks the line for good after so many answers."""
        answers = 0
        self.asked: list[str] = []

        def call(name: str, raw: bytes, seconds: float) -> bytes:
            nonlocal answers
            content = _parts(raw)[2]
            if content not in (b"train", b"score", b""):  # the run begins, or ends
                answers += 1
                self.asked.append(_asked(content))
            if cut is not None and answers > cut:
                raise ConnectionError
            return self.doors[name].answer(raw, "server")

        return execute(self.home, spec.run, call)

    def begin(self, **more: Any) -> RunSpec:
        spec = RunSpec(run=new_run_name(), **more)
        spec.write(self.home.runs)
        return spec
