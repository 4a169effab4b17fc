"""What the owner of a site has written in ``site.toml``: checked entry by entry, before a table is read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sottovoce._validation import nearest
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.engines.site import ENGINES, ComputeSite
from sottovoce.vertical.flare.entries import Section, entries_of
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.mechanisms import ANSWERS

PURPOSES: Final = ("train", "score")
"""What a run may be to do."""

SCORING: Final = frozenset({"score"})
"""Answers about people who are scored."""

ALWAYS: Final = frozenset({"alignment"}) & frozenset(ANSWERS)
"""Answers that cost nothing and have no noise, and are given all the same."""

_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "data": ("table", "schema", "id"),
    "scoring": ("table", "id"),
    "budget": ("ledger", "dataset"),
    "allow": ("answers",),
    "caps": ("epsilon", "rounds", "bytes", "people"),
    "secure": ("partners", "host", "ports", "engines", "fingerprints", "timeout"),
    "trial": ("random_state",),
}
_OF_HELPER: Final = {"caps": ("rounds", "bytes"), **{name: _KEYS[name] for name in ("secure", "trial")}}
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST: Final = 86_400.0
_LAST_PORT: Final = 65_535


@dataclass(frozen=True)
class Caps:
    """What one coordinator may use of a site in all; None is without a limit.

    Epsilon is at the delta of the budget. Rounds are requests, bytes those in both directions, over all runs. People is
    the least number that an alignment may have in common.
    """

    epsilon: float | None = None
    rounds: int | None = None
    bytes: int | None = None
    people: int | None = None


@dataclass(frozen=True)
class BudgetEntry:
    """Where the account of the site is: the address of its ledger, in which a file is absolute, and the data set."""

    ledger: str
    dataset: str


def read_site_file(kit: Kit) -> dict[str, Any]:
    """Return the fields of the `Site` that a kit's file describes; an error names file, entry and remedy."""
    with entries_of(Path(kit.site_file)) as entries:
        helps = kit.name in kit.federation.helpers
        known = _OF_HELPER if helps else _KEYS
        for name in entries:
            if name not in known:
                whose = f" for {kit.name}, a helper, which has no table" if helps else ""
                raise ParameterError(
                    f"unknown section [{name}]{whose}.{nearest(name, known)} There are "
                    f"{', '.join(f'[{each}]' for each in known)}."
                )
        sections = {name: Section(f"[{name}]", entries.get(name, {}), keys) for name, keys in known.items()}
        caps = sections["caps"]
        fields = {
            "caps": Caps(
                caps.positive("epsilon", None),
                *(caps.whole(key, None, least=1) for key in ("rounds", "bytes", "people")),
            ),
            "random_state": sections["trial"].whole("random_state", None, least=0),
            "computing": _computing(kit, sections["secure"]) if "secure" in entries else None,
        }
        if helps:
            if fields["computing"] is None:
                raise ParameterError(
                    "the section [secure] is missing: a helper computes with others, and does nothing else."
                )
            return fields
        if "data" not in entries:
            raise ParameterError('the section [data] is missing: table = "FILE" and schema = "FILE".')
        fields |= _with_table(Path(kit.site_file).parent.resolve(), sections, entries)
        _check_together(**fields)
        return fields


def _with_table(folder: Path, sections: Mapping[str, Section], entries: Mapping[str, Any]) -> dict[str, Any]:
    data, scoring, budget = sections["data"], sections["scoring"], sections["budget"]
    answers = sections["allow"].names("answers", sorted(ANSWERS), default=None, empty=True)
    fields = {
        "table": data.file("table", folder),
        "schema_file": data.file("schema", folder),
        "id_column": data.text("id", None),
        "answers": None if answers is None else frozenset(answers),
        "budget": None,
    }
    if "scoring" in entries:
        fields["scoring_table"] = scoring.file("table", folder)
        fields["scoring_id"] = scoring.text("id", fields["id_column"])
    if "budget" in entries:
        address = budget.text("ledger")
        scheme, three, place = address.partition(":///")
        if scheme == "sqlite" and three and not place.startswith("/"):
            address = f"sqlite:///{folder / place}"  # relative to this file, wherever the site is started from
        fields["budget"] = BudgetEntry(address, budget.text("dataset"))
    return fields


def _check_together(
    caps: Caps, budget: BudgetEntry | None, answers: frozenset[str] | None, id_column: str | None, **_: Any
) -> None:
    """Refuse what contradicts something else in the file, without opening any other."""
    if caps.epsilon is not None and budget is None:
        raise ParameterError(
            "[caps] epsilon is a share of the budget, and there is none. Add [budget] with ledger and dataset, or "
            "leave the cap out."
        )
    if caps.people is not None and id_column is None:
        raise ParameterError("[caps] people limits alignments, and [data] names no id column. Add it, or leave it out.")
    if budget is not None and answers is not None:
        for name in sorted(answers - SCORING):
            if not ANSWERS[name].is_covered:
                raise ParameterError(
                    f"[allow] answers has {name!r}, which has no noise, so that no budget covers it. Leave it out, or "
                    "leave [budget] out: then everything that is allowed is answered, however often."
                )


# ------------------------------------------------------------------ [secure]


def _computing(kit: Kit, secure: Section) -> ComputeSite:
    others = tuple(name for name in kit.federation.names if name != kit.name)
    partners = secure.names("partners", others, "the sites that this one computes with,")
    ports = secure.take("ports", _are_ports, (
        "the first and the last of the ports that are open to the partners, such as [9100, 9110], within 1 and "
        f"{_LAST_PORT}"
    ))  # fmt: skip
    return ComputeSite(
        partners=partners,
        host=secure.host("host", "the partners reach this site", most=253),
        ports=tuple(ports),
        engines=secure.names("engines", ENGINES, default=ENGINES),
        identity=kit.identity,
        fingerprints=_fingerprints(secure, partners),
        timeout=secure.positive("timeout", 600.0, at_most=_LONGEST),
    )


def _are_ports(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(port) is int for port in value)
        and 1 <= value[0] <= value[1] <= _LAST_PORT
    )


def _fingerprints(secure: Section, partners: tuple[str, ...]) -> dict[str, str] | None:
    if "fingerprints" not in secure.entries:
        return None
    wanted = "the SHA-256 of the partner's identity/certificate.pem, 64 hexadecimal digits with or without colons"
    given = Section("[secure.fingerprints]", secure.entries["fingerprints"], partners)
    return {
        name: _digits(given.take(name, lambda text: _DIGEST.fullmatch(_digits(text)), wanted)) for name in given.entries
    }


def _digits(text: object) -> str:
    """Return a digest as openssl prints it, "sha256 Fingerprint=AB:CD:...", or the digits alone."""
    return text.rpartition("=")[2].strip().replace(":", "").lower() if isinstance(text, str) else ""
