"""What the owner of a site says in ``site.toml``, and the `Party` that follows from it.

The file is private to the site: nothing of it is sent, and no run can name another one. What a coordinator may ask,
up to which amount, and with which table it is answered is settled here, before anything is connected.
"""

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np

from sottovoce._files import write_whole
from sottovoce.exceptions import ParameterError, SchemaError
from sottovoce.tables import Schema, read_table
from sottovoce.vertical.engines.site import ComputeSite
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.site_file import ALWAYS, PURPOSES, SCORING, BudgetEntry, Caps, read_site_file
from sottovoce.vertical.mechanisms import ANSWERS, PRIVATE
from sottovoce.vertical.party.budget import LedgerBudget
from sottovoce.vertical.party.helper import Helper
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.protocols.alignment.identifiers import usable_identifiers

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
