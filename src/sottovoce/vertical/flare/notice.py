"""What a site will do and what it will not, and what it was asked so far: for the eyes of its owner."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from sottovoce.ledger import Ledger
from sottovoce.privacy.filters import PrivacyFilter
from sottovoce.tables import Schema
from sottovoce.vertical.engines.site import ComputeSite, available_engines
from sottovoce.vertical.flare.register import Register
from sottovoce.vertical.flare.site import Site
from sottovoce.vertical.mechanisms import ANSWERS

NEVER: Final = (
    "run code that comes from outside: a run brings its purpose, and ships nothing",
    "take a path, a table, a budget, a list of answers or a seed from a run: they stand in site.toml",
    "run shell commands, show files or logs, restart or change settings for anybody outside",
    "answer anybody but the coordinator, whose certificate is of this federation; another party is refused",
    "take part in two runs at once",
    "send names of columns, or its log",
)
"""What no coordinator gets a site to do, whatever it sends."""


Rows = Iterator[tuple[str, str]]
"""What, and what is said of it."""


def notice(site: Site) -> Rows:
    """Yield everything that the owner should know before the site is connected.

    The tables are read; a table, schema or ledger that cannot be used is an error.
    """
    kit, facts = site.kit, site.kit.federation
    train = site.allowed("train")
    score = site.allowed("score") if site.scoring_table is not None else frozenset()
    yield "coordinator", f"{facts.coordinator} at {facts.host}, port {facts.port}; this site connects to it"
    yield "connection", f"certificates on both sides, until {kit.expires:%Y-%m-%d}"
    if site.is_helper:
        yield "people", "none: a helper has no table, and sees random numbers only"
    else:
        yield "people", site.table_in_words("train")
    if site.scoring_table is not None:
        yield "people to be scored", site.table_in_words("score")
    if not site.is_helper:
        yield "always told", _told(site.schema)
    yield from _computing(site.computing)
    yield from ((f"will ({name})", ANSWERS[name].about) for name in sorted(train))
    yield from ((f"will, scoring ({name})", ANSWERS[name].about) for name in sorted(score))
    if not train and not score:
        yield "will", "answer nothing beyond that"
    yield from ((f"will not ({name})", ANSWERS[name].about) for name in sorted(set(ANSWERS) - train - score))
    yield from (("never", never) for never in NEVER)
    budget = budget_of(site)
    if not site.is_helper:
        yield from budget_rows(budget)
    yield from cap_rows(_asked(site)["caps"], budget, facts.coordinator)
    seeded = site.random_state is not None
    yield "trial", "the noise can be repeated: NOT PRIVATE" if seeded else "no: the noise is secret"
    yield "log", str(Path(kit.state) / "log.txt")
    yield "register", str(_register_of(site))
    yield "models", str(site.models_folder)


def _told(schema: Schema) -> str:
    return (
        f"the number of rows, and what the schema makes public: {schema.n_features} features, norm of a row at most "
        f"{schema.data_norm:.6g}, entries within 1" + (", none negative" if schema.nonnegative else "")
    )


def _computing(computing: ComputeSite | None) -> Rows:
    if computing is None:
        yield "joint computations", "none: no [secure] in site.toml"
        return
    first, last = computing.ports
    yield (
        "joint computations",
        f"with {', '.join(sorted(computing.partners or ()))}; they connect to {computing.host}, a port of {first} to "
        f"{last}, by certificates on both sides, while a run goes on; each may take {computing.timeout:g} s for "
        "anything",
    )
    found = available_engines()
    yield (
        "engines",
        ", ".join(
            f"{name} {found[name]}" if name in found
            else f"{name}: NOT INSTALLED here, pip install 'sottovoce[secure]'"
            for name in computing.engines
        ),
    )  # fmt: skip
    if computing.fingerprints:
        yield "known by fingerprint", ", ".join(sorted(computing.fingerprints))


def budget_rows(budget: Mapping[str, Any] | None) -> Rows:
    if budget is None:
        yield "budget", "NONE: what is allowed is answered however often, with or without noise"
        return
    yield (
        "budget",
        f"epsilon {budget['epsilon']:g} at delta {budget['delta']:g} for one person's row here, over all runs; "
        f"{budget['spent']:.6g} are spent, {budget['left']:.6g} are left ({budget['dataset']} in {budget['ledger']})",
    )


def cap_rows(caps: Mapping[str, Any], budget: Mapping[str, Any] | None, coordinator: str) -> Rows:
    if budget is not None:
        most = "no cap beside the budget" if budget["cap"] is None else f"at most {budget['cap']:g}"
        yield "cap, epsilon", f"{most}; {coordinator} has used {budget['spent_by_coordinator']:.6g}"
    for what in ("rounds", "bytes"):
        most = "no cap" if caps[what] is None else f"at most {caps[what]:,}"
        yield f"cap, {what}", f"{most}; {coordinator} has used {caps[f'used_{what}']:,}"
    if caps["people"] is not None:
        yield "cap, people", f"an alignment to fewer than {caps['people']:,} people is refused"


def site_history(site: Site) -> dict[str, Any]:
    """Return what a site was asked, and what is left; no table is read."""
    kit = site.kit
    return {
        "site": kit.name,
        "kind": kit.kind,
        "federation": kit.federation.name,
        "coordinator": kit.federation.coordinator,
        "helper": site.is_helper,
        **_asked(site),
        "budget": budget_of(site),
        "models": sorted(site.parts()),
    }


def _register_of(site: Site) -> Path:
    return Path(site.kit.state) / "register.db"


def _asked(site: Site) -> dict[str, Any]:
    """Return what the register has of runs and refusals, and what of the caps is used."""
    runs, refusals, (rounds, n_bytes) = list[Any](), list[Any](), (0, 0)
    if _register_of(site).exists():
        with closing(Register(_register_of(site), read_only=True)) as register:
            runs, refusals = [run for run in register.runs() if run["run"]], register.refusals()
            rounds, n_bytes = register.used(site.kit.federation.coordinator)
    caps = {**vars(site.caps), "used_rounds": rounds, "used_bytes": n_bytes}
    return {"runs": runs, "refusals": refusals, "caps": caps}


def budget_of(site: Site) -> dict[str, Any] | None:
    """Return the account of a site's data set, and what of it went to its coordinator; None without a budget."""
    if site.budget is None:
        return None
    site.account()  # says what is wrong with it
    book = Ledger(site.budget.ledger)
    known = book.datasets()[site.budget.dataset]
    spent, delta = book.spent(known.name)
    cap = site.caps.epsilon
    rule = known.filter if cap is None else PrivacyFilter(cap, delta, known.composition)  # as the account has it
    return {
        "ledger": site.budget.ledger,
        "dataset": known.name,
        "epsilon": known.epsilon,
        "delta": delta,
        "spent": spent,
        "left": max(known.epsilon - spent, 0.0),
        "spent_by_coordinator": book.would_spend(known.name, rule=rule, coordinator=site.kit.federation.coordinator),
        "cap": cap,
    }
