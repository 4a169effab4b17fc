"""An entry for the public registry of deployments: what the receipt knows, and marks where a person has to say it.

The fields are those of the schema of OpenDP's deployments registry (``opendp/deployments-registry-data``, read in its
form of 2026 with ``basic``, ``dp_variant``, ``privacy_loss``, ``deployment_model``, ``implementation`` and
``administrative``), in all three tiers. Marks are texts: where the registry wants one of a list of words, an entry is
refused there until somebody has chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sottovoce._addresses import documentation, where_to_read
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import NothingReleased, describe
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.unit import is_of_persons
from sottovoce.report._yaml import yaml_text
from sottovoce.report.model_card import check_model_card
from sottovoce.report.noise import number_of_people
from sottovoce.report.reading import fingerprint

__all__ = ["TO_FILL", "registry_entry", "registry_text", "to_fill"]

TO_FILL: Final = "TO FILL: "


def registry_entry(guarantee: Guarantee, *, model_card: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Return an entry for the registry as plain data; texts that begin with `TO_FILL` are for a person.

    Parameters
    ----------
    guarantee : Guarantee
    model_card : mapping or None
        Fields of `sottovoce.report.CARD_FIELDS`, as a page takes them; they fill what they say.

    Raises
    ------
    ParameterError
        If the run was not private: the registry is one of deployments of differential privacy.
    """
    if not guarantee.is_private or isinstance(guarantee.event, NothingReleased):
        raise ParameterError(f"the registry is for private releases. {guarantee.statement()}")
    card = {} if model_card is None else check_model_card(model_card)

    def said(field: str, wanted: str) -> str:
        value = card.get(field)
        return f"{TO_FILL}{wanted}" if value is None else value if isinstance(value, str) else "\n".join(value)

    estimator = str(guarantee.parameters.get("estimator", "linear model"))
    name = said("name", "name of the data product")
    # of persons with several rows nobody has said how many there are
    people = None if is_of_persons(guarantee.unit) else number_of_people(guarantee)
    preprocessing = [line for line in guarantee.not_covered if "preprocess" in line or "before" in line]
    return {
        "url_slug": _slug(name),
        "deployment": {
            "basic": {
                "name": name,
                "data_curators": [
                    {
                        "data_curator_name": said("organisation", "who publishes it"),
                        "data_curator_type": f"{TO_FILL}Government, Industry or Nonprofit",
                    }
                ],
                "description": f"{estimator}, a linear model. {said('data_description', 'what the data are')}",
                "intended_use": said("intended_use", "what it is for"),
                "data_product_type": "Machine learning model",
                "data_product_region": f"{TO_FILL}which region the data describe",
                "data_product_sector": f"{TO_FILL}Technology, Healthcare, Education, Government, Energy or Finance",
                "publication_date": said(
                    "date", f"YYYY-MM-DD; the receipt was made on {guarantee.day or 'a day unknown'}"
                ),
            },
            "dp_variant": {
                "variant_name": "Pure DP" if guarantee.delta == 0.0 else "Approximate DP",
                "data_domain": said("data_subjects", "which tables could have been given: whose rows, of what columns"),
                "unprotected_quantities": "Taken as public or true:\n" + _listed(guarantee.assumptions),
            },
            "privacy_loss": {
                "privacy_unit": guarantee.unit,
                "privacy_unit_details": Adjacency.parse(guarantee.adjacency).statement(guarantee.unit),
                "number_of_privacy_units": f"{TO_FILL}a public number" if people is None else people,
                "privacy_parameters": {"epsilon": guarantee.epsilon, "delta": guarantee.delta},
                "privacy_parameters_details": f"Accountant: {guarantee.accountant}. Not covered:\n"
                + _listed(guarantee.not_covered),
            },
            "deployment_model": {
                "model_name": _model(guarantee),
                "trust_assumptions": f"{TO_FILL}who sees the rows, who runs the training, who sees the model",
                "actors": f"{TO_FILL}everybody who may reach the data or the model",
                "release_type": "One release",
                "release_type_details": _ledger(guarantee) + said("other_releases", "other uses of the same data"),
                "data_source_type": f"{TO_FILL}Static or Dynamic",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": (
                    f"{TO_FILL}what was done to the table before training, and how parameters were chosen. The receipt "
                    "says of it:\n" + _listed(preprocessing)
                ),
                "mechanisms": (
                    f"{guarantee.mechanism}.\nsottovoce {guarantee.version}, noise from "
                    f"{guarantee.parameters.get('noise from', 'an unknown source')}; floating point and side "
                    f"channels: {documentation('docs/known_limits.md')}; "
                    f"proof: {', '.join(where_to_read(guarantee.proof)[:2])}.\n{TO_FILL}"
                    "security of the data before training"
                ),
                "composition": f"{guarantee.accountant}, over:\n{describe(guarantee.event)}",
                "post_processing": "The coefficients and what is computed from them. No other access to the rows.",
                "justification": f"{TO_FILL}why these parameters, and how the choice was checked",
                "utility": said("evaluation", "how good the model is, and whether that figure was private"),
                "additional_information": (
                    f"SHA-256 of the receipt: {fingerprint(guarantee)}. SHA-256 of the model: {guarantee.model}."
                ),
            },
            "administrative": {
                "status": "Draft",
                "registry_authors": _authors(card.get("authors")),
                "tier": 3,
            },
        },
    }


def registry_text(entry: Mapping[str, Any]) -> str:
    """Return an entry as the YAML that the registry takes."""
    return yaml_text(entry)


def to_fill(entry: Any, path: str = "") -> Iterator[str]:
    """Yield the names of what a person has to fill, such as ``deployment.basic.name``."""
    if isinstance(entry, str):
        if TO_FILL in entry:
            yield path
        return
    if not isinstance(entry, (Mapping, list)):
        return
    parts = entry.items() if isinstance(entry, Mapping) else ((str(place), item) for place, item in enumerate(entry))
    for name, value in parts:
        yield from to_fill(value, f"{path}.{name}" if path else name)


def _slug(name: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return f"{TO_FILL}a short name of letters, digits and hyphens" if name.startswith(TO_FILL) or not slug else slug


def _model(guarantee: Guarantee) -> str:
    if "n_reports" in guarantee.parameters:
        return "Local"
    if "solver" in guarantee.parameters:
        return "Central"
    return f"{TO_FILL}Central, Federated or Varies; the columns were at several organisations"


def _ledger(guarantee: Guarantee) -> str:
    if guarantee.charge is None:
        return "No ledger of releases about the same people was charged.\n"
    return f"Charged to a privacy ledger (data set {guarantee.charge['dataset']!r}).\n"


def _authors(authors: str | list[str] | None) -> list[str]:
    if authors is None:
        return [f"{TO_FILL}who fills this entry"]
    return authors if isinstance(authors, list) else [authors]


def _listed(lines: tuple[str, ...] | list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "- nothing"
