"""What the owner of a site says in ``site.toml``, and the `Party` that follows from it.

The file is private to the site: nothing of it is sent, and no run can name another one. What a coordinator may ask,
up to which amount, and with which table it is answered is settled here, before anything is connected.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np

from sottovoce._files import write_whole
from sottovoce._validation import nearest
from sottovoce.exceptions import ParameterError, SchemaError
from sottovoce.tables import Schema, read_table
from sottovoce.vertical.engines import ENGINES, ComputeSite
from sottovoce.vertical.flare.federation import Section, entries_of
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.mechanisms import ANSWERS, PRIVATE
from sottovoce.vertical.party.budget import LedgerBudget
from sottovoce.vertical.party.party import Helper, Party
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.requests.identifiers import usable_identifiers

# ------------------------------------------------------------------ the file

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


# ------------------------------------------------------------------ the site

MOST_MODELS: Final = 32  # that the requests of one run may leave at a site; a training leaves one, or two
_NAMED: Final = 8  # columns that are not used
_HELP: Final = frozenset({"secure"}) & frozenset(ANSWERS)  # all that a helper does
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Site:
    """One site of a federation, as its owner described it."""

    kit: Kit
    table: Path | None = None  # None at a helper
    schema_file: Path | None = None
    id_column: str | None = None
    scoring_table: Path | None = None
    scoring_id: str | None = None
    budget: BudgetEntry | None = None
    answers: frozenset[str] | None = None  # as they were listed
    caps: Caps = field(default_factory=Caps)
    random_state: int | None = None  # of trials on made-up data: whoever knows it can take the noise away
    # whom it computes with where nobody sees anything, and where it is reached; None: with nobody
    computing: ComputeSite | None = None

    @classmethod
    def read(cls, kit: Any) -> "Site":
        """Read the ``site.toml`` of a start-up kit, or of its folder; no table is read yet.

        An error names the file, the entry and the remedy.
        """
        opened = Kit.open(kit) if isinstance(kit, (str, Path)) else kit
        return cls(opened, **read_site_file(opened))

    @property
    def is_coordinator(self) -> bool:
        return bool(self.kit.kind == "coordinator")

    @property
    def is_helper(self) -> bool:
        """Whether there is no table here, and the site computes with others alone."""
        return self.kit.name in self.kit.federation.helpers

    @cached_property
    def schema(self) -> Schema:
        """The public facts about the table, which turn it into numbers.

        A schema that is wrong, or describes labels at a site that has none, is an error.
        """
        if self.schema_file is None:
            raise ParameterError(f"{self.kit.site_file}: {self.kit.name} is a helper and has no table.")
        schema = Schema.from_toml(self.schema_file)
        try:
            schema.require_confirmed()
            if self.is_coordinator:
                schema.require_target()
            elif schema.target is not None:
                raise SchemaError(
                    f"the schema names the target {schema.target!r}, and the labels are with the coordinator, "
                    f"{self.kit.federation.coordinator!r}. Leave the line out; if the column is a feature, describe it "
                    'as one, else write type = "ignore".'
                )
        except SchemaError as error:
            raise SchemaError(f"{self.schema_file}: {error}") from None
        used = [column.name for column in schema.feature_columns] + ([schema.target] if schema.target else [])
        for name in {self.id_column, self.scoring_id} - {None}:
            if name in used:
                raise SchemaError(
                    f"{self.schema_file}: the column {name!r} identifies people, so it can be neither a feature nor "
                    'the label. Write type = "ignore" for it, or leave it out of the schema.'
                )
        return schema

    def allowed(self, purpose: str = "train") -> frozenset[str]:
        """Return the names of what is answered in runs of one purpose.

        Without a list a party answers private mechanisms and alignment, and scores in scoring runs; the coordinator
        asks itself what it likes.
        """
        if self.is_helper:
            return _HELP if purpose == "train" else frozenset()
        if purpose == "score":
            return (SCORING | ALWAYS) & (self.answers if self.answers is not None else SCORING | ALWAYS)
        if self.answers is not None:
            # no budget can be charged for scores: the people of the training are not scored where there is one
            return self.answers - SCORING if self.budget is not None else self.answers
        if self.is_coordinator and self.budget is None:
            return frozenset(ANSWERS)
        return PRIVATE | ALWAYS

    def open_party(self, purpose: str = "train", *, journal: Any = None, labels: bool = False) -> Party:
        """Read the table and return the party that answers with it.

        Raises `SottovoceError` if a table, schema or ledger cannot be used. The message may quote a cell: it is for the
        owner.

        ``purpose``, {"train", "score"}: "score" takes the people to be scored, has no budget, trains nobody, and knows
        the parts of the models that were trained here.
        ``journal``: where the party writes down what it is asked, so that a run can go on after a crash.
        ``labels``: whether the labels of people who are scored are read too; those of the training always are.
        """
        more: dict[str, Any] = {} if journal is None else {"journal": journal}
        if self.is_helper:
            helper = Helper(self.kit.name, computing=self.computing, **more)
            return helper if self.random_state is None else helper.seed(self.random_state)
        X, ids, y, _ = self._read(purpose, labels)
        schema = self.schema
        if purpose == "train" and self.computing is not None:
            more["computing"] = self.computing
        if purpose == "train" and self.budget is not None:
            more["budget"] = self.account()
        if ids is not None:
            more["least_people"] = self.caps.people or 1
        party = Party(
            X, ids, name=self.kit.name, y=y, data_norm=schema.data_norm, data_bound=1.0,
            nonnegative=schema.nonnegative, answers=self.allowed(purpose), **more,
        )  # fmt: skip
        party.feature_names = schema.feature_names
        party.most_models = MOST_MODELS
        if self.random_state is not None:
            party.seed(self.random_state)
        if purpose == "score":
            self.hand_back(party)
        party.on_keeping = self.keep
        return party

    def hand_back(self, party: Party) -> None:
        """Give a party its parts of the models that were trained here; one of another schema is of no use to it."""
        for model, part in self.parts().items():
            if part.feature_names in (None, party.feature_names) and len(part.coef) == party.n_features:
                party.adopt(model, part)

    def account(self) -> LedgerBudget:
        """Return the account in the ledger, capped for this coordinator; a ledger that is not there is an error."""
        assert self.budget is not None
        return LedgerBudget(
            self.budget.ledger, self.budget.dataset, name=self.kit.name, coordinator=self.kit.federation.coordinator,
            cap=self.caps.epsilon,
        )  # fmt: skip

    def table_in_words(self, purpose: str = "train") -> str:
        """Read the table and count, for the eyes of its owner: what is not used, and why an alignment lacks rows."""
        path, id_column = self._source(purpose)
        X, ids, _, names = self._read(purpose, labels=False)
        known = {*self.schema.column_names, id_column}
        unused = [name for name in names if name not in known]
        rows = f"{X.shape[0]:,} rows, {len(names)} columns of {path}"
        if unused:
            more = ", ..." if len(unused) > _NAMED else ""
            rows += f"; not in the schema, not used: {', '.join(unused[:_NAMED])}{more}"
        if ids is None:
            return f"{rows}; no identifiers: row i must be the same person at every site"
        found = usable_identifiers("id", ids)
        return " ".join([f"{rows}; {len(found.rows):,} can be aligned by {id_column!r}.", *found.remarks()])

    def _read(self, purpose: str, labels: bool) -> tuple[Any, Any, Any, tuple[str, ...]]:
        path, id_column = self._source(purpose)
        schema = self.schema
        may_lack = None if purpose == "train" or labels else schema.target
        table = read_table(path, layout=schema.layout, names=schema.column_names, may_lack=may_lack)
        wants_labels = self.is_coordinator and (purpose == "train" or labels)
        return (
            schema.features(table),
            None if id_column is None else table.cells(id_column).identifiers(schema.layout.missing),
            schema.labels(table) if wants_labels else None,
            table.column_names,
        )

    def _source(self, purpose: str) -> tuple[Path, str | None]:
        if purpose not in PURPOSES:
            raise ParameterError(f"purpose must be one of {', '.join(map(repr, PURPOSES))}; got {purpose!r}.")
        if purpose == "train" and self.table is not None:
            return self.table, self.id_column
        if self.scoring_table is None:
            raise ParameterError(
                f"{self.kit.site_file}: there are no people to be scored. Name their table: [scoring] with "
                'table = "FILE".'
            )
        return self.scoring_table, self.scoring_id

    # ------------------------------------------------------------------ parts of models

    @property
    def models_folder(self) -> Path:
        """Where the parts of the models are that were trained here."""
        return Path(self.kit.state) / "models"

    def keep(self, model: str, part: Part) -> None:
        """Write a part of a model down, whole or not at all, for nobody else to read."""
        folder = self.models_folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({
            "model": model, "feature_names": part.feature_names, "coef": [float(entry) for entry in part.coef],
            "intercept": float(part.intercept), "exact": part.exact,
        })  # fmt: skip
        name = model if _NAME.fullmatch(model) else sha256(model.encode()).hexdigest()
        write_whole(folder / f"{name}.json", text, private=True)

    def parts(self) -> dict[str, Part]:
        parts = {}
        for path in sorted(self.models_folder.glob("*.json")):
            try:
                entries = json.loads(path.read_text())
                names = entries["feature_names"]
                parts[str(entries["model"])] = Part(
                    np.array(entries["coef"], dtype=np.float64), float(entries["intercept"]),
                    None if names is None else tuple(map(str, names)), bool(entries.get("exact", True)),
                )  # fmt: skip
            except (OSError, ValueError, KeyError, TypeError):
                raise ParameterError(f"{path}: this is not a part of a model. Remove the file.") from None
        return parts
