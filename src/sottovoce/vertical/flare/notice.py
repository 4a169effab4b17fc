"""What a site will do and what it will not, and what it was asked so far: for the eyes of its owner."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from sottovoce.ledger import ChargeRecord, Ledger
from sottovoce.privacy.filters import PrivacyFilter, Release
from sottovoce.vertical.engines.site import ComputeSite, available_engines
from sottovoce.vertical.flare.register import Register
from sottovoce.vertical.flare.site import Site
from sottovoce.vertical.mechanisms import ANSWERS

NEVER: Final = (
    "run code that comes from outside: a job names one class of this library, and ships nothing",
    "take a path, a table, a budget, a list of answers or a seed from a job: they stand in site.toml",
    "run shell commands, show files or logs, restart or change settings for anybody outside",
    "answer anybody but the coordinator, whose certificate is of this federation; another party is refused",
    "take part in two runs at once",
    "send names of columns, or its log",
)
"""What no coordinator gets a site to do, whatever it sends."""


def site_facts(site: Site) -> dict[str, Any]:
    """Return everything that the owner should know before the site is connected, in plain numbers and texts.

    The tables are read; a table, schema or ledger that cannot be used is an error.
    """
    kit = site.kit
    train = site.allowed("train")
    score = site.allowed("score") if site.scoring_table is not None else frozenset()
    return {
        **_who(site),
        "host": kit.federation.host,
        "port": kit.federation.port,
        "table": None if site.table is None else site.table_facts("train"),
        "scoring": None if site.scoring_table is None else site.table_facts("score"),
        "told": None if site.is_helper else _told(site),
        "computing": None if site.computing is None else _computing(site.computing),
        "answers": _answers(train),
        "answers_in_scoring": _answers(score),
        "refuses": _answers(set(ANSWERS) - train - score),
        "budget": budget_of(site),
        "caps": _asked(site)["caps"],
        "seeded": site.random_state is not None,
        "never": list(NEVER),
        "files": {
            "log": str(Path(kit.state) / "log.txt"),
            "register": str(_register_of(site)),
            "models": str(site.models_folder),
        },
    }


def site_history(site: Site) -> dict[str, Any]:
    """Return what a site was asked, what that cost, and what is left; no table is read."""
    budget = site.budget
    charges = [] if budget is None else Ledger(budget.ledger).history(budget.dataset)
    return {
        **_who(site),
        **_asked(site),
        "budget": budget_of(site),
        "charges": [_charge(one) for one in charges if "announced" not in one.plan],  # else it notes an answer
        "models": sorted(site.parts()),
    }


def _who(site: Site) -> dict[str, Any]:
    kit = site.kit
    return {
        "site": kit.name,
        "kind": kit.kind,
        "federation": kit.federation.name,
        "coordinator": kit.federation.coordinator,
        "helper": site.is_helper,
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


def _told(site: Site) -> dict[str, Any]:
    encoder = site.encoder
    return {
        "features": encoder.n_features,
        "data_norm": encoder.data_norm,
        "data_bound": 1.0,
        "nonnegative": encoder.nonnegative,
    }


def _computing(computing: ComputeSite) -> dict[str, Any]:
    found = available_engines()
    return {
        "partners": sorted(computing.partners or ()),
        "host": computing.host,
        "ports": list(computing.ports),
        "engines": {name: found.get(name) for name in computing.engines},
        "fingerprints": sorted(computing.fingerprints or ()),
        "timeout": computing.timeout,
    }


def _answers(names: Any) -> dict[str, str]:
    return {name: ANSWERS[name].about for name in sorted(names)}


def budget_of(site: Site) -> dict[str, Any] | None:
    """Return the account of a site's data set, and what of it went to its coordinator; None without a budget."""
    if site.budget is None:
        return None
    site.account()  # says what is wrong with it
    book = Ledger(site.budget.ledger)
    known = book.datasets()[site.budget.dataset]
    spent, delta = book.spent(known.name)
    own = [
        Release(charge.event, charge.delta)
        for charge in book.history(known.name)
        if charge.counts and charge.plan.get("coordinator") == site.kit.federation.coordinator
    ]
    cap = site.caps.epsilon
    rule = known.filter if cap is None else PrivacyFilter(cap, delta, known.composition)  # as the account has it
    return {
        "ledger": site.budget.ledger,
        "dataset": known.name,
        "epsilon": known.epsilon,
        "delta": delta,
        "spent": spent,
        "left": max(known.epsilon - spent, 0.0),
        "spent_by_coordinator": rule.spent(own) if own else 0.0,
        "cap": cap,
    }


def _charge(charge: ChargeRecord) -> dict[str, Any]:
    plan: Mapping[str, Any] = charge.plan
    return {
        "day": charge.at[:10],
        "coordinator": plan.get("coordinator"),
        "session": plan.get("session"),
        "step": plan.get("step"),
        "what": charge.event.describe(),
        "state": charge.state,
        "seeded": charge.seeded,
    }
