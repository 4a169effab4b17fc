"""Four organisations, four processes, one model: from the list of parties to predictions, in ``demo-vertical/``.

Run with ``make demo-vertical``. An insurer knows who saw a doctor more than twice in a year, and which plan they are insured by. Two hospitals and a
bank know other things about the same people. Each runs a process of its own, with its own keys, table, budget and ledger; they find the people whom
all of them know, train one model, and score people who took no part. All processes are on this machine; nothing else is simulated. Each
command is printed before it runs, so that it can be repeated from the root of the checkout.

The table is that of the RAND health insurance experiment (Manning et al., 1987; Deb and Trivedi, 2002) and comes with the package statsmodels. It has
a row for each person and year, so *a "person" of this demo is a year of one*: the receipt protects a row. The columns are real; who holds which, the
identifiers and who is unknown to whom are made up.
"""

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


# Facts from the report on the experiment and from common knowledge, none from the table: coinsurance is 0 to 95 %, and the bounds on amounts are those
# of the plans, as logarithms.
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
    (kit / "site.toml").write_text(SITE, encoding="utf-8")


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

[caps]
epsilon = 2.5
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
        lines += ["", "[[party]]", f'name = "{party.name}"', f'organisation = "{party.full_name}"']
    return "\n".join(lines) + "\n"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as trial:
        trial.bind(("localhost", 0))
        return int(trial.getsockname()[1])


# ------------------------------------------------------------------ commands


def run(*arguments: object) -> None:
    """Print a command, and run it."""
    words = [str(word) for word in arguments]
    CONSOLE.print(f"\n$ sottovoce {' '.join(words)}", style="bold", soft_wrap=True)
    subprocess.run([sys.executable, "-m", "sottovoce", *words], check=True)


@contextmanager
def running(*arguments: object) -> Iterator[None]:
    """Print a command that goes on until it is told to stop, and run it meanwhile."""
    words = [str(word) for word in arguments]
    log = OUT / f"{Path(words[-1]).name}.log"
    CONSOLE.print(f"$ sottovoce {' '.join(words)} > {log} &", style="bold", soft_wrap=True)
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "sottovoce", *words], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()


def newest_run() -> str:
    """Return the name of the coordinator's last run."""
    return max((KITS / INSURER.name / "runs").iterdir(), key=lambda folder: folder.stat().st_mtime).name


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
    CONSOLE.print(f"{OUT}/federation.toml:\n{(OUT / 'federation.toml').read_text(encoding='utf-8')}", highlight=False)
    run("vertical", "provision", OUT / "federation.toml", "--out", KITS)

    CONSOLE.rule("2. Each organisation puts its table, its settings and a budget into its kit")
    table, draw = real_table(), np.random.default_rng(SEED + 1)
    for organisation in ORGANISATIONS:
        fill_kit(organisation, table, draw)
        run(
            "ledger", "create", "--ledger", f"sqlite:///{KITS / organisation.name / 'ledger.db'}", "--dataset", "people", "--epsilon", 3,
            "--delta", "1e-5", "--adjacency", "replace-one",
        )  # fmt: skip
    run("vertical", "party", KITS / "north", "--check")

    CONSOLE.rule("3. Each starts its site; parties connect to the coordinator, nobody connects to them")
    with ExitStack() as sites:
        sites.enter_context(running("vertical", "coordinator", KITS / INSURER.name))
        for party in PARTIES:
            sites.enter_context(running("vertical", "party", KITS / party.name))

        CONSOLE.rule("4. The insurer trains: private set intersection first, then one message from each")
        tick = time.perf_counter()
        run(
            "vertical",
            "train",
            KITS / INSURER.name,
            "--model",
            "logistic",
            "--epsilon",
            EPSILON,
            "--delta",
            DELTA,
            "--wait",
            120,
        )
        trained = time.perf_counter() - tick
        name = newest_run()

        CONSOLE.rule("5. What happened, at the coordinator and at a party")
        run("vertical", "status", KITS / INSURER.name, name)
        run("vertical", "status", KITS / "north")
        run("ledger", "history", "--ledger", f"sqlite:///{KITS / 'north' / 'ledger.db'}", "--dataset", "people")

        CONSOLE.rule("6. People who took no part are scored: each party adds its score, and keeps its coefficients")
        tick = time.perf_counter()
        run("vertical", "predict", KITS / INSURER.name, name, "--out", OUT / "predictions.csv", "--proba", "--labels")
        scored = time.perf_counter() - tick
    CONSOLE.print((OUT / "predictions.csv").read_text(encoding="utf-8")[:200].rsplit("\n", 1)[0], highlight=False)
    CONSOLE.rule("done")
    CONSOLE.print(
        f"{time.perf_counter() - began:.0f} seconds in all; {trained:.0f} for the alignment and the training, {scored:.0f} for the predictions.\n"
        f"Everything is in {OUT}/: kits/NAME (keys, table, ledger, register and log of each organisation),\n"
        f"kits/{INSURER.name}/runs/{name} (receipts, model), predictions.csv.",
        highlight=False,
    )


if __name__ == "__main__":
    main()
