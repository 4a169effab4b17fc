"""What the owner of a site says in ``site.toml``, and the `Party` that follows from it.

The file is private to the site: nothing of it is sent, and no job can name another one. What a coordinator may ask,
up to which amount, and with which table it is answered is settled here, before anything is connected.
"""

import json
import os
import re
import stat
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from sottovoce._validation import nearest, number
from sottovoce.exceptions import ParameterError, SchemaError
from sottovoce.tables import Encoder, Schema, Table, read_table
from sottovoce.vertical.engines.site import ComputeSite
from sottovoce.vertical.flare.computing import computing_from
from sottovoce.vertical.mechanisms import ANSWERS
from sottovoce.vertical.party import Helper, Part, Party
from sottovoce.vertical.party.answers import PRIVATE
from sottovoce.vertical.party.budget import LedgerBudget
from sottovoce.vertical.protocols.alignment.identifiers import usable_identifiers

__all__ = ["MOST_MODELS", "PURPOSES", "BudgetEntry", "Caps", "Site", "TableFacts"]

PURPOSES: Final = ("train", "score")
MOST_MODELS: Final = 32  # that the requests of one run may leave at a site; a training leaves one, or two
_SCORING: Final = frozenset({"score", "columns", "foreign-weights"})  # answers about people who are scored
_ALWAYS: Final = frozenset({"alignment"}) & frozenset(ANSWERS)
_HELP: Final = frozenset({"secure"}) & frozenset(ANSWERS)  # all that a helper does
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "data": ("table", "schema", "id"),
    "scoring": ("table", "id"),
    "budget": ("ledger", "dataset"),
    "allow": ("answers",),
    "caps": ("epsilon", "rounds", "bytes", "people"),
    "secure": ("partners", "host", "ports", "engines", "fingerprints", "timeout"),
    "trial": ("random_state",),
}


class KitLike(Protocol):
    """What a site needs to know of its start-up kit."""

    kind: str
    name: str
    federation: Any
    folder: Path
    state: Path
    site_file: Path
    identity: Path


@dataclass(frozen=True)
class Caps:
    """What one coordinator may use of a site in all; None is without a limit.

    Attributes
    ----------
    epsilon : float or None
        At the delta of the budget.
    rounds, bytes : int or None
        Requests, and bytes in both directions, over all runs.
    people : int or None
        The least number of people that an alignment may have in common.
    """

    epsilon: float | None = None
    rounds: int | None = None
    bytes: int | None = None
    people: int | None = None


@dataclass(frozen=True)
class BudgetEntry:
    """Where the account of the site is.

    Attributes
    ----------
    ledger : str
        Its address; a file is absolute.
    dataset : str
    """

    ledger: str
    dataset: str


@dataclass(frozen=True)
class TableFacts:
    """What a table holds, for the eyes of its owner.

    Attributes
    ----------
    rows, columns, features : int
    has_ids, has_labels : bool
    usable : int
        Rows that an alignment can take.
    remarks : tuple of str
        Why it cannot take the others.
    unused : tuple of str
        Columns that the schema does not describe.
    """

    rows: int
    columns: int
    features: int
    has_ids: bool
    has_labels: bool
    usable: int
    remarks: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """One site of a federation, as its owner described it.

    Attributes
    ----------
    kit : Kit
    table, schema_file : Path or None
        None at a helper.
    id_column : str or None
    scoring_table : Path or None
    scoring_id : str or None
    budget : BudgetEntry or None
    answers : frozenset of str or None
        As they were listed.
    caps : Caps
    random_state : int or None
        Of trials on made-up data: whoever knows it can take the noise away.
    computing : ComputeSite or None
        Whom it computes with where nobody sees anything, and where it is reached; None: with nobody.
    """

    kit: KitLike
    table: Path | None
    schema_file: Path | None
    id_column: str | None = None
    scoring_table: Path | None = None
    scoring_id: str | None = None
    budget: BudgetEntry | None = None
    answers: frozenset[str] | None = None
    caps: Caps = field(default_factory=Caps)
    random_state: int | None = None
    computing: ComputeSite | None = None

    @classmethod
    def read(cls, kit: Any) -> "Site":
        """Read the ``site.toml`` of a start-up kit; no table is read yet.

        Parameters
        ----------
        kit : Kit, str or Path

        Raises
        ------
        ParameterError
            Naming the file, the entry and the remedy.
        """
        if isinstance(kit, (str, Path)):
            from sottovoce.vertical.flare.kit import Kit

            kit = Kit.open(kit)
        path = Path(kit.site_file)
        try:
            return _from_entries(kit, path.parent.resolve(), _entries(path))
        except ParameterError as error:
            raise ParameterError(f"{path}: {error}") from None

    @property
    def is_coordinator(self) -> bool:
        """Whether the labels are here."""
        return bool(self.kit.kind == "coordinator")

    @property
    def is_helper(self) -> bool:
        """Whether there is no table here, and the site computes with others alone."""
        return self.kit.name in self.kit.federation.helpers

    @cached_property
    def encoder(self) -> Encoder:
        """What turns the table into numbers, by the public facts of the schema.

        Raises
        ------
        SchemaError
            If the schema is wrong, or describes labels at a site that has none.
        """
        if self.schema_file is None:
            raise ParameterError(f"{self.kit.site_file}: {self.kit.name} is a helper and has no table.")
        schema = Schema.from_toml(self.schema_file)
        try:
            schema.require_confirmed()
            if self.is_coordinator:
                encoder = Encoder(schema)
            elif schema.target is not None:
                raise SchemaError(
                    f"the schema names the target {schema.target!r}, and the labels are with the coordinator, "
                    f"{self.kit.federation.coordinator!r}. Leave the line out; if the column is a feature, describe it "
                    'as one, else write type = "ignore".'
                )
            else:
                encoder = Encoder(schema, labelled=False)
        except SchemaError as error:
            raise SchemaError(f"{self.schema_file}: {error}") from None
        used = [column.name for column in schema.feature_columns] + ([schema.target] if schema.target else [])
        for name in {self.id_column, self.scoring_id} - {None}:
            if name in used:
                raise SchemaError(
                    f"{self.schema_file}: the column {name!r} identifies people, so it can be neither a feature nor "
                    'the label. Write type = "ignore" for it, or leave it out of the schema.'
                )
        return encoder

    def allowed(self, purpose: str = "train") -> frozenset[str]:
        """Return the names of what is answered in runs of one purpose.

        Without a list a party answers private mechanisms and alignment, and scores in scoring runs; the coordinator
        asks itself what it likes.
        """
        if self.is_helper:
            return _HELP if purpose == "train" else frozenset()
        if purpose == "score":
            listed = self.answers if self.answers is not None else frozenset({"score"})
            if self.is_coordinator and self.answers is None:
                listed = _SCORING
            return listed & (_SCORING | _ALWAYS) | (_ALWAYS if self.answers is None else frozenset())
        if self.answers is not None:
            # no budget can be charged for scores: the people of the training are not scored where there is one
            return self.answers - _SCORING if self.budget is not None else self.answers
        if self.is_coordinator and self.budget is None:
            return frozenset(ANSWERS)
        return PRIVATE | _ALWAYS

    def open_party(self, purpose: str = "train", *, journal: Any = None, labels: bool = False) -> Party:
        """Read the table and return the party that answers with it.

        Parameters
        ----------
        purpose : {"train", "score"}
            "score" takes the people to be scored, has no budget, trains nobody, and knows the parts of the models that
            were trained here.
        journal : Journal or None
            Where the party writes down what it is asked, so that a run can go on after a crash.
        labels : bool, default=False
            Whether the labels of people who are scored are read too; those of the training always are.

        Raises
        ------
        SottovoceError
            If a table, schema or ledger cannot be used. The message may quote a cell: it is for the owner.
        """
        more: dict[str, Any] = {} if journal is None else {"journal": journal}
        if self.is_helper:
            return self._open_helper(**more)
        X, ids, y, _ = self._read(purpose, labels)
        encoder = self.encoder
        if purpose == "train" and self.computing is not None:
            more["computing"] = self.computing
        if purpose == "train" and self.budget is not None:
            more["budget"] = self.account()
        if ids is not None:
            more["alignments"] = Path(self.kit.state) / ("alignments" if purpose == "train" else "alignments-score")
            more["least_people"] = self.caps.people or 1
        party = Party(
            X, ids, name=self.kit.name, y=y, data_norm=encoder.data_norm, data_bound=1.0,
            nonnegative=encoder.nonnegative, answers=self.allowed(purpose), **more,
        )  # fmt: skip
        party.feature_names = encoder.feature_names
        party.most_models = MOST_MODELS
        if self.random_state is not None:
            party.seed(self.random_state)
        if purpose == "score":
            for model, part in self.parts().items():
                if part.feature_names in (None, party.feature_names) and len(part.coef) == party.n_features:
                    party.adopt(model, part)  # one of an older schema is of no use for these columns
        return party

    def _open_helper(self, **more: Any) -> Helper:
        helper = Helper(self.kit.name, computing=self.computing, **more)
        return helper if self.random_state is None else helper.seed(self.random_state)

    def account(self) -> LedgerBudget:
        """Return the account in the ledger, capped for this coordinator.

        Raises
        ------
        ParameterError, LedgerError
            If the ledger or the data set is not there, or cannot be used for this.
        """
        assert self.budget is not None
        return LedgerBudget(
            self.budget.ledger, self.budget.dataset, name=self.kit.name, coordinator=self.kit.federation.coordinator,
            cap=self.caps.epsilon,
        )  # fmt: skip

    def table_facts(self, purpose: str = "train") -> TableFacts:
        """Read the table and count; for the eyes of its owner."""
        X, ids, y, names = self._read(purpose, labels=False)
        remarks: list[str] = []
        usable = X.shape[0]
        if ids is not None:
            found = usable_identifiers("id", ids)
            remarks, usable = found.remarks(), len(found.rows)
        known = {*self.encoder.schema.column_names, self._source(purpose)[1]}
        unused = tuple(name for name in names if name not in known)
        return TableFacts(
            X.shape[0], len(names), X.shape[1], ids is not None, y is not None, usable, tuple(remarks), unused
        )  # fmt: skip

    def _read(self, purpose: str, labels: bool) -> tuple[Any, Any, Any, tuple[str, ...]]:
        path, id_column = self._source(purpose)
        schema = self.encoder.schema
        may_lack = None if purpose == "train" or labels else schema.target
        table = read_table(path, layout=schema.layout, names=schema.column_names, may_lack=may_lack)
        wants_labels = self.is_coordinator and (purpose == "train" or labels)
        return (
            self.encoder.features(table),
            None if id_column is None else _identifiers(table, id_column, schema.layout.missing),
            self.encoder.labels(table) if wants_labels else None,
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
        path = folder / f"{model if _NAME.fullmatch(model) else sha256(model.encode()).hexdigest()}.json"
        text = json.dumps({
            "model": model, "feature_names": part.feature_names, "coef": [float(entry) for entry in part.coef],
            "intercept": float(part.intercept), "exact": part.exact,
        })  # fmt: skip
        fresh = path.with_suffix(".new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def parts(self) -> dict[str, Part]:
        """Return the parts of models that were written down, by name.

        Raises
        ------
        ParameterError
            If a file is not one of these.
        """
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


# ------------------------------------------------------------------ the file


def _entries(path: Path) -> dict[str, Any]:
    """Return the sections of the file; every key is a known one."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ParameterError(f"cannot read it: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ParameterError("it is not UTF-8 text. Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(f"not valid TOML: {error}.") from None
    for section, keys in entries.items():
        if section not in _KEYS:
            raise ParameterError(
                f"unknown section [{section}].{nearest(section, _KEYS)} There are "
                f"{', '.join(f'[{known}]' for known in _KEYS)}."
            )
        if not isinstance(keys, Mapping):
            raise ParameterError(f"{section} must be a section, [{section}]; got {keys!r}.")
        for key in keys:
            if key not in _KEYS[section]:
                raise ParameterError(
                    f"[{section}] has the unknown key {key!r}.{nearest(key, _KEYS[section])} There are "
                    f"{', '.join(_KEYS[section])}."
                )
    return entries


def _from_entries(kit: KitLike, folder: Path, entries: Mapping[str, Any]) -> Site:
    data, scoring = entries.get("data"), entries.get("scoring")
    computing = None if "secure" not in entries else computing_from(kit, entries["secure"])
    seed = _whole("trial", entries.get("trial", {}), "random_state", least=0)
    if kit.name in kit.federation.helpers:
        return _helper_from_entries(kit, entries, computing, seed)
    if data is None:
        raise ParameterError('the section [data] is missing: table = "FILE" and schema = "FILE".')
    id_column = _text("data", data, "id", needed=False)
    site = Site(
        kit, _file(folder, "data", data, "table"), _file(folder, "data", data, "schema"), id_column,
        answers=_answers(entries.get("allow", {})), caps=_caps(entries.get("caps", {})),
        random_state=seed, computing=computing,
    )  # fmt: skip
    if scoring is not None:
        own_id = _text("scoring", scoring, "id", needed=False)
        site = replace(
            site, scoring_table=_file(folder, "scoring", scoring, "table"),
            scoring_id=id_column if own_id is None else own_id,
        )  # fmt: skip
    if "budget" in entries:
        site = replace(site, budget=_budget(folder, entries["budget"]))
    _check_together(site)
    return site


def _helper_from_entries(
    kit: KitLike, entries: Mapping[str, Any], computing: ComputeSite | None, seed: int | None
) -> Site:
    for section in entries:
        if section not in ("secure", "caps", "trial"):
            raise ParameterError(
                f"[{section}] is for a site with a table, and {kit.name} is a helper in the federation's file. Leave "
                "the section out."
            )
    if computing is None:
        raise ParameterError("the section [secure] is missing: a helper computes with others, and does nothing else.")
    caps = _caps(entries.get("caps", {}))
    if caps.epsilon is not None or caps.people is not None:
        raise ParameterError("[caps] of a helper has rounds and bytes only: it has no budget and no people.")
    return Site(kit, None, None, caps=caps, random_state=seed, computing=computing)


def _check_together(site: Site) -> None:
    """Refuse what contradicts something else in the file, without opening any other."""
    if site.caps.epsilon is not None and site.budget is None:
        raise ParameterError(
            "[caps] epsilon is a share of the budget, and there is none. Add [budget] with ledger and dataset, or "
            "leave the cap out."
        )
    if site.caps.people is not None and site.id_column is None:
        raise ParameterError("[caps] people limits alignments, and [data] names no id column. Add it, or leave it out.")
    if site.budget is not None and site.answers is not None:
        for name in sorted(site.answers - _SCORING):
            answer = ANSWERS[name]
            if not (answer.private or answer.charged or name in _ALWAYS):
                raise ParameterError(
                    f"[allow] answers has {name!r}, which has no noise, so that no budget covers it. Leave it out, or "
                    "leave [budget] out: then everything that is allowed is answered, however often."
                )


def _text(section: str, entries: Mapping[str, Any], key: str, *, needed: bool = True) -> Any:
    value = entries.get(key)
    if value is None and not needed:
        return None
    if not isinstance(value, str) or not value:
        got = "it is missing" if value is None else f"got {value!r}"
        raise ParameterError(f"[{section}] {key} must be a text between quotes; {got}.")
    return value


def _file(folder: Path, section: str, entries: Mapping[str, Any], key: str) -> Path:
    path = folder / Path(_text(section, entries, key)).expanduser()
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        raise ParameterError(f"[{section}] {key}: cannot read {path}: {error.strerror}.") from None
    if not regular:
        raise ParameterError(f"[{section}] {key}: {path} is not a regular file.")
    return path


def _whole(section: str, entries: Mapping[str, Any], key: str, *, least: int) -> int | None:
    value = entries.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
        raise ParameterError(f"[{section}] {key} must be a whole number >= {least}; got {value!r}.")
    return value


def _caps(entries: Mapping[str, Any]) -> Caps:
    epsilon = entries.get("epsilon")
    return Caps(
        epsilon=None if epsilon is None else number("[caps] epsilon", epsilon, above=0.0),
        rounds=_whole("caps", entries, "rounds", least=1),
        bytes=_whole("caps", entries, "bytes", least=1),
        people=_whole("caps", entries, "people", least=1),
    )


def _answers(entries: Mapping[str, Any]) -> frozenset[str] | None:
    listed = entries.get("answers")
    if listed is None:
        return None
    known = ", ".join(f'"{name}"' for name in sorted(ANSWERS))
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise ParameterError(f"[allow] answers must be a list of names out of {known}; got {listed!r}.")
    for name in listed:
        if name not in ANSWERS:
            raise ParameterError(f"[allow] answers has {name!r}, which is none of {known}.{nearest(name, ANSWERS)}")
    return frozenset(listed)


def _budget(folder: Path, entries: Mapping[str, Any]) -> BudgetEntry:
    address = _text("budget", entries, "ledger")
    scheme, three, place = address.partition(":///")
    if scheme == "sqlite" and three and not place.startswith("/"):
        address = f"sqlite:///{folder / place}"  # relative to this file, wherever the site is started from
    return BudgetEntry(address, _text("budget", entries, "dataset"))


def _identifiers(table: Table, column: str, missing: Collection[str]) -> Any:
    return table.cells(column).identifiers(missing)
