"""The receipt: what was promised, about what, and the event that anyone can account again."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from sottovoce._addresses import where_to_read
from sottovoce._plain_data import digest, parsed, plain, scalar
from sottovoce._shown import html_table, in_one_line, quoted, rounded_up, ten_lines
from sottovoce._validation import filled_text, number, truth
from sottovoce.exceptions import AccountingError, ModelFormatError, ParameterError
from sottovoce.privacy.accounting import accountant_for, epsilon_of
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.event import flatten, offered
from sottovoce.privacy.events import Event, NonPrivateEvent, event_from_dict, outline

_MOST_SLOW: Final = 60  # a fifth of a second each
FURTHER_LIMITS: Final = "the further limits in docs/known_limits.md"
PREPROCESSING: Final = (
    "whatever was done to the table before fit: scaling, selection, imputation or clipping that was computed from the "
    "data is not covered"
)
NO_LEDGER: Final = "no ledger was charged"
TABLE: Final = "name of the table (not checked)"  # among the parameters, where somebody gave one

_FORMAT: Final = "sottovoce-receipt"
_VERSION: Final = 2
# what a receipt has beside its event and ties, and under which name it is stored
_STORED: Final = {
    name: "sottovoce" if name == "version" else name
    for name in (
        "epsilon", "delta", "adjacency", "unit", "mechanism", "releases", "assumptions", "not_covered", "parameters",
        "seeded", "accountant", "proof", "version",
    )
}  # fmt: skip
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_VERSIONS: Final = re.compile(r"[0-9][0-9A-Za-z.+!_-]{0,39}")  # one word: nobody writes a promise of their own there
_DAY: Final = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
_CHARGE: Final = ("ledger", "dataset", "charge", "entry")
_SEEDED: Final = (
    " The noise was drawn from a given random_state: NOT PRIVATE against anyone who knows or guesses the seed, nor if "
    "the seed is used twice."
)
_CHARGED: Final = "ledger {ledger}, dataset {dataset!r}, charge {charge}, entry with the hash {entry}"
_FITS: Final = re.compile(rf"{NO_LEDGER}; fit ([1-9]\d{{0,8}}) of this table in one run")
_SIGNED: Final = "by the holder of the {algorithm} key {public_key} (check it with that key)"
_SIGNATURE: Final = ("algorithm", "public_key", "value")


@dataclass(frozen=True)
class Guarantee:
    """A differential privacy statement with its evidence.

    Parameters
    ----------
    epsilon : float
        Upper bound at ``delta``; ``inf`` when the run was not private.
    delta : float
    adjacency : str
        A value of `sottovoce.privacy.adjacency.Adjacency`.
    unit : str
        What one neighbouring change is about, in words.
    mechanism : str
        The algorithm and how it is randomised.
    releases : tuple of str
        Everything that left the mechanism and is covered by the statement.
    event : Event
        What was accounted; `epsilon_at` and `delta_at` account it again.
    assumptions : tuple of str
        Facts that were taken as public, or as true.
    not_covered : tuple of str
        What the statement does not protect against.
    parameters : dict
        Public parameters of the run: the frozen plan and what its rules made of the noisy releases.
    seeded : bool
        True when the noise came from a ``random_state``: not private against whoever knows it, nor if it is used twice.
    accountant : str
        Name of the accountant behind ``epsilon``.
    proof : str
        Page of the documentation with statement and proof.
    version : str
        Version of sottovoce that made the receipt.
    day : str or None
        When it was made: a day in UTC, no finer, because a time can tell how long something secret took.
    model : str or None
        SHA-256 of what `fit` left in the model: coefficients, intercepts, classes, names. None where there is none.
    schema : str or None
        Text of the schema (bounds, categories) that the table was read with; None where there was none.
    charge : mapping or None
        Entry of the ledger: ``ledger``, ``dataset``, ``charge``, ``entry`` (its hash). None: no ledger was charged.
    fits : int or None
        Without a ledger: which private fit of its table this one was, in one process and its workers. None: no other
        one is known.
    signature : mapping or None
        ``algorithm``, ``public_key``, ``value``: made over `signed_bytes`.
    """

    epsilon: float
    delta: float
    adjacency: str
    unit: str
    mechanism: str
    releases: tuple[str, ...]
    event: Event
    assumptions: tuple[str, ...]
    not_covered: tuple[str, ...]
    seeded: bool
    accountant: str
    proof: str
    version: str
    parameters: dict[str, object] = field(default_factory=dict)
    day: str | None = None
    model: str | None = None
    schema: str | None = None
    charge: Mapping[str, str] | None = None
    fits: int | None = None
    signature: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", number("epsilon", self.epsilon, at_least=0.0, infinite=True))
        object.__setattr__(self, "delta", number("delta", self.delta, at_least=0.0, below=1.0))
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency).value)
        for name in ("unit", "mechanism", "accountant", "proof", "version"):
            if not isinstance(getattr(self, name), str):
                raise ParameterError(f"{name} must be a string; got {getattr(self, name)!r}.")
        if not _VERSIONS.fullmatch(self.version):
            raise ParameterError(f"version must be one of sottovoce, such as 0.1.0; got {self.version!r}.")
        for name in ("releases", "assumptions", "not_covered"):
            items = getattr(self, name)
            if not isinstance(items, (tuple, list)) or not _are_texts(items):
                raise ParameterError(f"{name} must be a tuple of strings; got {items!r}.")
            object.__setattr__(self, name, tuple(items))
        if not isinstance(self.event, Event):
            raise ParameterError(f"event must be an Event; got {self.event!r}.")
        truth("seeded", self.seeded)
        if not isinstance(self.parameters, Mapping):
            raise ParameterError(f"parameters must be a mapping; got {self.parameters!r}.")
        # pages made before and after it was stored are the same
        object.__setattr__(self, "parameters", {key: scalar(value) for key, value in self.parameters.items()})
        self._check_ties()
        spent = epsilon_of(self.event, self.delta)
        # the last digit may differ between machines; anything more is an overspent plan
        if not spent <= self.epsilon * (1.0 + 1e-9) + 1e-12:
            raise AccountingError(
                f"the event costs epsilon={spent!r} at delta={self.delta!r}, more than the epsilon={self.epsilon!r} "
                "of this receipt: the receipt does not describe the run."
            )

    def _check_ties(self) -> None:
        for name, form, wanted in (("day", _DAY, "a day such as 2026-11-22"), ("model", _DIGEST, "64 hex digits")):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and form.fullmatch(value)):
                raise ParameterError(f"{name} must be {wanted}, or None; got {value!r}.")
        if self.schema is not None and not isinstance(self.schema, str):
            raise ParameterError(f"schema must be the text of a schema, or None; got {self.schema!r}.")
        for name, entries in (("charge", _CHARGE), ("signature", _SIGNATURE)):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _texts(name, value, entries))
        counted = type(self.fits) is int and _FITS.fullmatch(self._uncharged()) is not None
        if self.fits is not None and (self.charge is not None or not counted):
            raise ParameterError(
                f"fits must be a whole number where no ledger was charged, or None; got {self.fits!r}."
            )

    def _uncharged(self) -> str:
        return NO_LEDGER if self.fits is None else f"{NO_LEDGER}; fit {self.fits} of this table in one run"

    @property
    def is_private(self) -> bool:
        """False when epsilon is infinite or the noise can be repeated from a seed."""
        return math.isfinite(self.epsilon) and not self.seeded

    def epsilon_at(self, delta: float) -> float:
        """Return epsilon at another ``delta``, accounted again from the event."""
        return accountant_for(self.event).epsilon(self.event, delta)

    def delta_at(self, epsilon: float) -> float:
        """Return delta at another ``epsilon``, accounted again from the event."""
        return accountant_for(self.event).delta(self.event, epsilon)

    def to_dp_event(self, *, conservative: bool = False) -> Any:
        """Return the event as one of Google's ``dp_accounting``, to be accounted by its accountants.

        Use them with ``NeighboringRelation.ADD_OR_REMOVE_ONE`` whatever the adjacency of this receipt is: noise is
        stated relative to the sensitivity for that adjacency already.

        Parameters
        ----------
        conservative : bool, default False
            True also translates releases that have no equal there, into zCDP events that cost more: pure differential
            privacy of epsilon into epsilon^2 / 2 [1]_, exponential mechanisms into epsilon^2 / 8 [2]_. Only its
            ``RdpAccountant`` takes these.

        Returns
        -------
        dp_accounting.DpEvent

        Raises
        ------
        AccountingError
            If a release has no equal there: searches with a Poisson number of trials; without ``conservative`` also
            pure releases.

        References
        ----------
        .. [1] Bun, Steinke (2016). Concentrated Differential Privacy: Simplifications, Extensions, and Lower Bounds.
           arXiv:1605.02065, Proposition 1.4.
        .. [2] Cesar, Rogers (2021). Bounding, Concentrating, and Truncating: Unifying Privacy Loss Composition for Data
           Analytics. arXiv:2004.07223.
        """
        return self.event.to_dp_event(truth("conservative", conservative))

    def naming(self, table: str) -> Self:
        """Return the receipt, unsigned, with a public name of the table that it is about.

        Parameters
        ----------
        table : str
            Stands in quotation marks, and nothing checks it. No digest of the rows stands beside it: that would be a
            release without noise (``docs/decisions/0033-a-name-and-no-digest.md``).
        """
        named = {**self.parameters, TABLE: quoted(filled_text("table", table))}
        return replace(self, parameters=named, signature=None)

    def statement(self) -> str:
        """Return the guarantee as one sentence."""
        if isinstance(self.event, NonPrivateEvent):
            return "NOT PRIVATE: this model was trained without noise (epsilon = inf)."
        if not math.isfinite(self.epsilon):
            return f"NOT PRIVATE: at delta = {self.delta:.6g} the releases keep to no epsilon (epsilon = inf)."
        return (
            f"({rounded_up(self.epsilon, 6)}, {rounded_up(self.delta, 6)})-differential privacy for "
            f"{in_one_line(self.unit)}, adjacency {self.adjacency}.{_SEEDED if self.seeded else ''}"
        )

    def to_dict(self) -> dict[str, object]:
        """Return the receipt as plain data for JSON; infinity is the string ``"inf"``."""
        body = {
            "format": _FORMAT,
            "version": _VERSION,
            "statement": self.statement(),
            **plain({key: getattr(self, name) for name, key in _STORED.items()}),
            "day": self.day,
            "model": self.model,
            "schema": None if self.schema is None else {"sha256": _sha256(self.schema), "text": self.schema},
            "ledger": self._uncharged() if self.charge is None else dict(self.charge),
            "event": self.event.to_dict(),
        }
        signature = None if self.signature is None else dict(self.signature)
        return {**body, "checksum": digest(body), "signature": signature}

    def signed_bytes(self) -> bytes:
        """Return the bytes that a signature is made over, and whose SHA-256 is the fingerprint: the unsigned file."""
        return replace(self, signature=None).to_json().encode("utf-8", "surrogatepass")

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Rebuild a receipt; its epsilon is checked against its event.

        Raises
        ------
        ModelFormatError
            If the data are not a receipt that this version can read.
        AccountingError
            If the event costs more than the receipt says, or cannot be accounted.
        """
        if not isinstance(data, Mapping) or data.get("format") != _FORMAT:
            raise ModelFormatError(f"not a receipt: 'format' must be {_FORMAT!r}.")
        version = data.get("version")
        if type(version) is not int or version != _VERSION:
            raise ModelFormatError(
                f"receipt version {version!r} cannot be read by this version of sottovoce (it reads {_VERSION}): "
                "update sottovoce."
            )
        try:
            event = event_from_dict(data["event"])
        except (KeyError, AccountingError, ParameterError) as error:
            raise ModelFormatError(f"the receipt has no event that this version can read: {error}") from error
        if _slow_releases(event) > _MOST_SLOW:
            raise ModelFormatError("it has more kinds of releases than any run, and would take too long to account.")
        try:
            stored = {name: data[key] for name, key in _STORED.items()}
            stored["epsilon"] = _number(stored["epsilon"])
            stored["parameters"] = {key: _number(value) for key, value in stored["parameters"].items()}
            return cls(**stored, event=event, **_ties(data))
        except KeyError as error:
            raise ModelFormatError(f"the receipt is incomplete: it has no {error}.") from error
        except (ParameterError, AttributeError) as error:
            raise ModelFormatError(f"the receipt has a value of the wrong kind: {error}") from error

    def to_json(self) -> str:
        """Return the receipt as strict JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a receipt from JSON; see `from_dict`."""
        try:
            data = parsed(text)
        except (ValueError, TypeError, RecursionError) as error:  # also numbers of too many digits, and deep nesting
            raise ModelFormatError(f"the receipt is not JSON: {error}.") from error
        return cls.from_dict(data)

    def rows(self) -> list[tuple[str, str]]:
        """Return (heading, text) pairs for a readable table: first unit and promise, last parameters."""
        told: list[tuple[str, str | Iterable[str]]] = [
            ("unit", self.unit),
            ("statement", self.statement()),
            ("neighbours", Adjacency.parse(self.adjacency).statement(self.unit)),
            ("taken as public or true", self.assumptions),
            ("not covered", self.not_covered),
            ("released", self.releases),
            *self.ties(),
            ("mechanism", self.mechanism),
            ("accounted event", outline(self.event).split("\n")),
            ("accountant", self.accountant),
            ("proof", where_to_read(self.proof)),
            ("made by", f"sottovoce {self.version}" + (f" on {self.day} (UTC)" if self.day else "")),
            ("parameters", [f"{key} = {_text(value)}" for key, value in self.parameters.items()]),
        ]
        listed = ((heading, [text] if isinstance(text, str) else text) for heading, text in told)
        return [(heading, "\n".join(map(in_one_line, lines))) for heading, lines in listed]

    def ties(self) -> list[tuple[str, str]]:
        """Return (heading, text) pairs: to which table, model, schema, ledger it belongs, and who signed it."""
        return [
            ("table", str(self.parameters.get(TABLE, "not named" if self.charge is None else "see its ledger"))),
            ("model (SHA-256)", self.model or "none: the receipt is not about one model in one place"),
            ("schema (SHA-256)", "none" if self.schema is None else _sha256(self.schema)),
            ("ledger", self._uncharged() if self.charge is None else _CHARGED.format(**self.charge)),
            ("signature", "none" if self.signature is None else _SIGNED.format(**self.signature)),
        ]

    def __str__(self) -> str:
        told = dict(self.rows())
        listed = ("neighbours", "taken as public or true", "not covered", "released", "mechanism", "proof")
        named = (*listed, "model (SHA-256)", "ledger")
        shown = [("statement", told["statement"]), *((name, told[name]) for name in named if name in told)]
        return ten_lines(shown, "all of it: .rows(); as a page: sottovoce.report.receipt_page(receipt)")

    def _repr_html_(self) -> str:
        return html_table(self.rows())


def _ties(data: Mapping[str, Any]) -> dict[str, Any]:
    schema, _ = data["schema"], data["checksum"]  # verification compares it; here it only has to be there
    if schema is not None and not isinstance(schema, Mapping):
        raise ParameterError(f"schema must have 'sha256' and 'text', or be null; got {schema!r}.")
    ledger = data["ledger"]
    counted = _FITS.fullmatch(ledger) if isinstance(ledger, str) else None
    return {
        "day": data["day"],
        "model": data["model"],
        "schema": None if schema is None else schema["text"],
        "charge": None if ledger == NO_LEDGER or counted else ledger,
        "fits": int(counted[1]) if counted else None,
        "signature": data["signature"],
    }


def _slow_releases(event: Event) -> float:
    """Count the kinds of releases that are accounted one by one; a Gaussian beside others takes an eighth of others."""
    counts = flatten(event)
    others = sum(basic.offers.noise is None for basic in counts)
    own = others + (len(counts) - others) / 8 if others else 0.0
    return own + sum(_slow_releases(run) for run, _ in offered(counts, "search"))


def _texts(name: str, value: object, entries: tuple[str, ...]) -> dict[str, str]:
    if not isinstance(value, Mapping) or set(value) != set(entries) or not _are_texts(value.values()):
        raise ParameterError(f"{name} must have the texts {', '.join(entries)}, or be None; got {value!r}.")
    return {entry: value[entry] for entry in entries}


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _number(value: object) -> float:
    return math.inf if value == "inf" else value  # type: ignore[return-value]  # Guarantee checks it


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_text(item)}" for key, item in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)
