"""Four organisations, four processes, one model: from the list of parties to predictions, in ``demo-vertical/``.

Run with ``make demo-vertical``. An insurer knows who saw a doctor more than twice in a year, and how they are insured.
Two hospitals and a bank know other things about the same people. Each runs a process of its own, with its own keys,
table, budget and ledger; they find the people whom all of them know, train one model, and score people who took no
part. Then they train once more inside secure computation, where nobody sees anything but sums with noise, and compare.
All processes are on this machine; nothing else is simulated. Each command is printed before it runs, so that it can be
repeated from the root of the checkout.

The table is that of the RAND health insurance experiment, as it comes with the package statsmodels: a row for each
person and year. *A "person" of this demo is a year of one*, and a row is what the receipt protects. The columns are
real; who holds which, the identifiers, and who is unknown to whom are made up.
"""

import json
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

OUT = Path("demo-vertical")
KITS = OUT / "kits"
CONSOLE = Console(width=118)
SEED = 1
EPSILON, DELTA = "2", "1e-6"
KNOWN = 0.92  # the share of all people whom an organisation knows


class Organisation(NamedTuple):
    """Who holds which columns, and what is publicly known about these."""

    name: str
    full_name: str
    facts: dict[str, str]


# From the rules of the experiment's plans and common knowledge, not from the table. Amounts are logarithms of dollars.
ORGANISATIONS = (
    Organisation(
        "insurer",
        "Insurer",
        {
            "coinsurance": 'type = "numeric"\nbounds = [0, 4.7]  # log(1 + per cent)',
            "individual_deductible": 'type = "categorical"\ncategories = ["no", "yes"]',
            "most_out_of_pocket": 'type = "numeric"\nbounds = [0, 9]  # log(dollars)',
            "often_at_the_doctor": 'type = "categorical"\ncategories = ["no", "yes"]  # more than twice this year',
        },
    ),
    Organisation(
        "north",
        "North Hospital",
        {
            "chronic_diseases": 'type = "numeric"\nbounds = [0, 60]\nbins = [5, 10, 15, 20]  # an index',
            "physical_limitation": 'type = "numeric"\nbounds = [0, 1]',
        },
    ),
    Organisation(
        "south",
        "South Hospital",
        {"health": 'type = "categorical"\ncategories = ["excellent", "good", "fair", "poor"]'},
    ),
    Organisation(
        "bank", "Bank", {"incentive_paid": 'type = "numeric"\nbounds = [0, 8]\nbins = [1, 6]  # log(dollars) a year'}
    ),
)
INSURER, *PARTIES = ORGANISATIONS


# ------------------------------------------------------------------ what each organisation has


def real_table() -> pd.DataFrame:
    """Return the experiment's table, its codes as words, with identifiers and the column ``held_out``."""
    from statsmodels.datasets import randhie

    raw = randhie.load_pandas().data
    health = np.select([raw["hlthg"] == 1, raw["hlthf"] == 1, raw["hlthp"] == 1], ["good", "fair", "poor"], "excellent")
    table = pd.DataFrame(
        {
            "coinsurance": raw["lncoins"].round(4),
            "individual_deductible": np.where(raw["idp"] == 1, "yes", "no"),
            "most_out_of_pocket": raw["fmde"].round(4),
            "often_at_the_doctor": np.where(raw["mdvis"] > 2, "yes", "no"),
            "chronic_diseases": raw["disea"].round(4),
            "physical_limitation": raw["physlm"].round(4),
            "health": health,
            "incentive_paid": raw["lpi"].round(4),
        }
    )
    draw = np.random.default_rng(SEED)
    table["person"] = [f"P{number:07d}" for number in draw.choice(10**7, len(table), replace=False)]
    # the years of one person follow each other: none of them is held out while another is trained on
    same = raw.drop(columns="mdvis")
    someone = (same != same.shift()).any(axis=1).cumsum()
    table["held_out"] = someone.isin(draw.choice(someone.max(), someone.max() // 5, replace=False))
    return table


def fill_kit(of: Organisation, table: pd.DataFrame, draw: np.random.Generator) -> None:
    """Put an organisation's table, schema and settings into its kit: its people, in its order."""
    kit = KITS / of.name
    for held_out, file in ((False, "people.csv"), (True, "new_people.csv")):
        people = table[table["held_out"] == held_out]
        known = people[draw.random(len(people)) < KNOWN].sample(frac=1, random_state=draw)
        known[["person", *of.facts]].to_csv(kit / file, index=False)
    target = 'target = "often_at_the_doctor"\n' if of is INSURER else ""
    columns = {"person": 'type = "ignore"', **of.facts}
    (kit / "people.toml").write_text(
        f'format = "sottovoce-schema"\nversion = 1\n{target}'
        + "".join(f"\n[columns.{name}]\n{facts}\n" for name, facts in columns.items()),
        encoding="utf-8",
    )
    partners = ", ".join(f'"{other.name}"' for other in ORGANISATIONS if other is not of)
    site = SITE.replace("PARTNERS", partners).replace("PORT", str(free_port()))
    (kit / "site.toml").write_text(site, encoding="utf-8")


SITE = """\
# This file belongs to this organisation alone, and is never sent.

[data]
table = "people.csv"
schema = "people.toml"
id = "person"

[scoring]
table = "new_people.csv"

[budget]
ledger = "sqlite:///ledger.db"
dataset = "people"

[allow]
answers = ["local-models", "secure", "alignment", "score"]  # scores in scoring runs only: those of the second table

[secure]                # whom this organisation computes with, and where they reach it while a run goes on
partners = [PARTNERS]
host = "localhost"
ports = [PORT, PORT]
timeout = 120

[caps]
epsilon = 5
rounds = 1000
bytes = 100_000_000
people = 1000
"""


def federation(port: int) -> str:
    """Return the list of parties, which is public."""
    lines = [
        'name = "doctor-visits"',
        "",
        "[coordinator]",
        f'name = "{INSURER.name}"',
        'host = "localhost"',
        f"port = {port}",
    ]
    for party in PARTIES:
        lines += ["", f"[[party]]  # {party.full_name}", f'name = "{party.name}"']
    return "\n".join(lines) + "\n"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as trial:
        trial.bind(("localhost", 0))
        return int(trial.getsockname()[1])


# ------------------------------------------------------------------ commands


def run(command: str, *, quiet: bool = False, refused: bool = False) -> None:
    """Print a command of sottovoce, and run it; ``refused``: it is meant to fail."""
    CONSOLE.print(f"\n$ sottovoce {command}", style="bold", soft_wrap=True, highlight=False)
    line = [sys.executable, "-m", "sottovoce", *shlex.split(command)]
    done = subprocess.run(line, check=False, stdout=subprocess.DEVNULL if quiet else None)
    if (done.returncode == 0) == refused:
        sys.exit(f"the command ended with status {done.returncode}; the demo stops. Logs: {OUT}/*.log")


@contextmanager
def running(command: str, log: Path) -> Iterator[None]:
    """Print a command that goes on until it is told to stop, and run it meanwhile."""
    CONSOLE.print(f"$ sottovoce {command} > {log} &", style="bold", soft_wrap=True, highlight=False)
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "sottovoce", *shlex.split(command)],
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()


def show(path: Path, lines: int = 100) -> None:
    """Print a file, or its first lines."""
    text = path.read_text(encoding="utf-8").splitlines()
    CONSOLE.print(f"\n{path}:", style="bold", highlight=False)
    CONSOLE.print("\n".join(text[:lines] + ["..."] * (len(text) > lines)), highlight=False, markup=False)


def newest_run() -> str:
    """Return the name of the coordinator's last run."""
    return max((KITS / INSURER.name / "runs").iterdir(), key=lambda folder: folder.stat().st_mtime).name


def compare(local_models: str, secure: str) -> None:
    """Print how good three models are on the people who took no part: what two scoring runs left."""
    found = [
        json.loads((KITS / INSURER.name / "runs" / name / "comparison.json").read_text(encoding="utf-8"))
        for name in (local_models, secure)
    ]
    columns = {
        "the insurer alone, without noise": found[0]["local"],
        f"local models, epsilon {EPSILON}": found[0]["joint"],
        f"secure computation, epsilon {EPSILON}": found[1]["joint"],
    }
    table = Table(title=f"On {found[0]['n_samples']:,} people who took no part", title_justify="left")
    table.add_column("")
    for heading in columns:
        table.add_column(heading, justify="right")
    for measure in found[0]["joint"]:
        table.add_row(measure, *(f"{measures[measure]:.4f}" for measures in columns.values()))
    CONSOLE.print(table)
    CONSOLE.print("One draw of the noise each. Over many: docs/measured/data/vertical_private.")


# ------------------------------------------------------------------ the story


def main() -> None:
    """Run all of it."""
    began = time.perf_counter()
    if (OUT / "federation.toml").exists():
        CONSOLE.print(f"{OUT}/ of an earlier run is removed.")
        shutil.rmtree(OUT)
    OUT.mkdir()

    CONSOLE.rule("1. Who takes part: one public file, and a kit with keys for each")
    (OUT / "federation.toml").write_text(federation(free_port()), encoding="utf-8")
    show(OUT / "federation.toml")
    run(f"vertical provision {OUT}/federation.toml --out {KITS}")

    CONSOLE.rule("2. Each organisation puts its table, its settings and a budget into its kit")
    table, draw = real_table(), np.random.default_rng(SEED + 1)
    for organisation in ORGANISATIONS:
        fill_kit(organisation, table, draw)
    show(KITS / "north" / "people.csv", 4)
    show(KITS / "north" / "people.toml")
    show(KITS / "north" / "site.toml")
    for organisation in ORGANISATIONS:
        run(
            f"ledger create --ledger sqlite:///{KITS}/{organisation.name}/ledger.db --dataset people --epsilon 6 "
            "--delta 1e-5 --adjacency replace-one",
            quiet=organisation is not INSURER,
        )
    run(f"vertical party {KITS}/north --check")

    CONSOLE.rule("3. Each party starts its site; it connects to the coordinator, nobody connects to it")
    with ExitStack() as sites:
        for party in PARTIES:
            sites.enter_context(running(f"vertical party {KITS}/{party.name}", OUT / f"{party.name}.log"))

        CONSOLE.rule("4. The insurer trains: private set intersection first, then one message to each")
        tick = time.perf_counter()
        run(f"vertical train {KITS}/{INSURER.name} --model logistic --epsilon {EPSILON} --delta {DELTA} --wait 120")
        trained, name = time.perf_counter() - tick, newest_run()

        CONSOLE.rule("5. What happened, at the coordinator and at a party")
        run(f"vertical status {KITS}/{INSURER.name} {name}")
        run(f"vertical status {KITS}/north")
        run(f"ledger history --ledger sqlite:///{KITS}/north/ledger.db --dataset people")

        CONSOLE.rule("6. People who took no part are scored: each party sends its score of them, no coefficient")
        tick = time.perf_counter()
        run(f"vertical predict {KITS}/{INSURER.name} {name} --labels --out {OUT}/predictions.csv")
        scored = time.perf_counter() - tick
        show(OUT / "predictions.csv", 4)
        plain = newest_run()

        CONSOLE.rule("7. Once more, inside secure computation: all four see sums with noise, and nothing else")
        tick = time.perf_counter()
        run(
            f"vertical train {KITS}/{INSURER.name} --model logistic --mechanism secure "
            f"--epsilon {EPSILON} --delta {DELTA}"
        )
        joint, secure = time.perf_counter() - tick, newest_run()
        run(f"vertical predict {KITS}/{INSURER.name} {secure} --labels --out {OUT}/predictions_secure.csv")
        compare(plain, newest_run())

        CONSOLE.rule("8. What a party does not allow: here, to train without noise")
        run(
            f"vertical train {KITS}/{INSURER.name} --model logistic --epsilon inf",
            refused=True,
        )
        run(f"vertical status {KITS}/north")
    CONSOLE.rule("done")
    CONSOLE.print(
        f"{time.perf_counter() - began:.0f} seconds in all: {trained:.0f} for alignment and training, {scored:.0f} for "
        f"the predictions, {joint:.0f} for the training inside secure computation. Everything is in {OUT}/: keys, "
        f"table, ledger, register and log of each organisation in kits/NAME; receipts and the insurer's part of the "
        f"models in kits/{INSURER.name}/runs/{name} and {secure}.",
        highlight=False,
    )


if __name__ == "__main__":
    main()
