"""The card for a model hub and the entry for the registry of deployments: YAML that programs read."""

import json
import math

import jsonschema
import pytest
import yaml

import sottovoce as sv
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import NonPrivateEvent, NothingReleased, PureEvent
from sottovoce.report import CARD_FIELDS, hub_card, registry_entry
from sottovoce.report._yaml import yaml_text
from sottovoce.report.reading import fingerprint
from sottovoce.report.registry import TO_FILL, registry_text, to_fill
from support.receipts import classifier, made_up, ridge

CARD = {
    "name": "Readmission risk, ward 7",
    "organisation": "St. Example Hospital",
    "licence": "apache-2.0",
    "intended_use": "Rank patients for a call: a nurse decides.",
    "out_of_scope_use": ["Insurance", "Children | <b>anybody</b>"],
    "data_description": "One row a patient.\nTwo wards.",
    "authors": ["A. Author", "B. Author"],
    "date": "2026-11-01",
}


@pytest.mark.parametrize(
    "value",
    [
        "plain", "yes", "null", "1e-5", "", " space ", "two\nlines", "two\n\nlines: - # [", "end\n", "\nbegin", " x\ny",
        "tab\there\nand\x85there", "nel\x85 ls\u2028 \u00e9 \U0001f642", '"quoted" \\ back',
        "x \ny", "\x07bell", 1e-6, 1.5, 2**70, 1e300, math.inf, -math.inf, 3, True, None, [], {},
        [[1, 2], {"a": "b\nc"}],
        [{"a": 1, "b": [2, "x\ny"]}, "z\nq"], {"a": {"b": {"c": [1.0e-9]}}},
    ],
)  # fmt: skip
def test_yaml_reads_back(value):
    data = {"key": value, "other": [value], "deep": {"in": [{"x": value}]}}
    assert yaml.safe_load(yaml_text(data)) == data


def front(text):
    head, _, body = text.removeprefix("---\n").partition("---\n\n")
    return yaml.safe_load(head), body


def test_hub_card():
    receipt = classifier(sv.DPLogisticRegression).guarantee_
    head, body = front(hub_card(receipt, model_card=CARD, metrics={"accuracy": 0.9}, data_set="ward 7, 2026"))
    assert (head["license"], head["library_name"]) == ("apache-2.0", "sottovoce")
    assert head["pipeline_tag"] == "tabular-classification"
    assert "differential-privacy" in head["tags"]
    ((model),) = head["model-index"]
    (result,) = model["results"]
    assert model["name"] == CARD["name"]
    assert result["metrics"] == [{"type": "accuracy", "value": 0.9, "verified": False}]
    assert result["dataset"]["name"] == "ward 7, 2026"
    stated = head["differential_privacy"]
    assert (stated["epsilon"], stated["delta"]) == (receipt.epsilon, receipt.delta)
    assert (stated["unit"], stated["model_sha256"]) == (receipt.unit, receipt.model)
    assert stated["receipt_sha256"] == fingerprint(receipt)
    assert body.startswith(f"# {CARD['name']}\n")
    assert "* Children | &lt;b&gt;anybody&lt;/b&gt;" in body
    assert receipt.statement() in body
    for line in receipt.not_covered:
        assert line in body


def test_hub_card_without_words_of_the_author():
    head, body = front(hub_card(ridge().guarantee_))
    assert "license" not in head and "model-index" not in head
    assert head["pipeline_tag"] == "tabular-regression"
    assert body.startswith("# DPRidge with differential privacy\n")
    head, body = front(hub_card(made_up(event=NonPrivateEvent(), epsilon=math.inf)))
    assert head["differential_privacy"]["private"] is False
    assert head["differential_privacy"]["epsilon"] in (math.inf, "inf")
    assert "**Not private.**" in body


def test_hub_card_refuses():
    receipt = made_up()
    with pytest.raises(ParameterError, match="data_set must name the data set of the metrics; got None"):
        hub_card(receipt, metrics={"accuracy": 0.9})
    with pytest.raises(ParameterError, match=r"metrics must be a mapping from names to numbers, or None; got \[\]"):
        hub_card(receipt, metrics=[], data_set="x")
    with pytest.raises(ParameterError, match=r"metrics\['accuracy'\] must be"):
        hub_card(receipt, metrics={"accuracy": "high"}, data_set="x")
    with pytest.raises(ParameterError, match="unknown field 'nam'"):
        hub_card(receipt, model_card={"nam": "x"})


def text(*words):
    return {"type": "string", **({"enum": list(words)} if words else {})}


def strict(required, **properties):
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


# the registry's fields and its closed lists of words
REGISTRY = strict(
    ["url_slug", "deployment"],
    url_slug=text(),
    deployment=strict(
        ["basic", "administrative"],
        basic=strict(
            ["name", "data_curators", "description", "intended_use", "data_product_type", "publication_date"],
            name=text(),
            data_curators={
                "type": "array",
                "minItems": 1,
                "items": strict(
                    ["data_curator_name", "data_curator_type"],
                    data_curator_name=text(),
                    data_curator_type=text("Government", "Industry", "Nonprofit"),
                ),
            },
            description=text(),
            intended_use=text(),
            data_product_type=text("Summary statistics", "Machine learning model", "Dataset", "Synthetic data"),
            data_product_region=text(),
            data_product_sector=text("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
            publication_date=text(),
        ),
        dp_variant=strict(
            [],
            variant_name=text("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
            data_domain=text(),
            unprotected_quantities=text(),
        ),
        privacy_loss=strict(
            [],
            privacy_unit=text(),
            privacy_unit_details=text(),
            number_of_privacy_units={"type": "integer"},
            privacy_parameters=strict([], epsilon={"type": "number"}, delta={"type": "number"}, rho={"type": "number"}),
            privacy_parameters_details=text(),
        ),
        deployment_model=strict(
            [],
            model_name=text("Local", "Central", "Shuffle", "Federated", "Varies"),
            trust_assumptions=text(),
            actors=text(),
            release_type=text("One release", "Many releases"),
            release_type_details=text(),
            data_source_type=text("Static", "Dynamic"),
            access_type=text("Interactive", "Non-interactive"),
        ),
        implementation=strict(
            [],
            **dict.fromkeys(
                (
                    "preprocessing_and_hyperparameter_tuning",
                    "mechanisms",
                    "composition",
                    "post_processing",
                    "justification",
                    "utility",
                    "additional_information",
                ),
                text(),
            ),
        ),
        administrative=strict(
            ["status", "registry_authors", "tier"],
            status=text("Draft"),
            registry_authors={"type": "array", "items": text(), "minItems": 1},
            tier={"type": "integer"},
        ),
    ),
)
CHOICES = {"deployment.basic.data_curators.0.data_curator_type", "deployment.basic.data_product_sector"} | {
    "deployment.deployment_model.data_source_type"
}


def at(entry, path):
    for name in path.split("."):
        entry = entry[int(name) if name.isdigit() else name]
    return entry


def test_registry_entry():
    receipt = classifier(sv.DPLogisticRegression).guarantee_
    entry = registry_entry(receipt, model_card=CARD)
    assert yaml.safe_load(registry_text(entry)) == entry
    deployment = entry["deployment"]
    assert entry["url_slug"] == "readmission-risk-ward-7"
    assert deployment["basic"]["data_curators"][0]["data_curator_name"] == "St. Example Hospital"
    assert deployment["basic"]["publication_date"] == "2026-11-01"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": receipt.epsilon, "delta": receipt.delta}
    assert deployment["privacy_loss"]["number_of_privacy_units"] == 400
    assert deployment["deployment_model"]["model_name"] == "Central"
    assert deployment["administrative"]["registry_authors"] == ["A. Author", "B. Author"]
    assert fingerprint(receipt) in deployment["implementation"]["additional_information"]
    filled = json.loads(json.dumps(entry))
    filled["deployment"]["basic"]["data_curators"][0]["data_curator_type"] = "Nonprofit"
    filled["deployment"]["basic"]["data_product_sector"] = "Healthcare"
    filled["deployment"]["deployment_model"]["data_source_type"] = "Static"
    jsonschema.validate(filled, REGISTRY)
    found = {error.json_path.removeprefix("$.").replace("[", ".").replace("]", "")
             for error in jsonschema.Draft202012Validator(REGISTRY).iter_errors(entry)}  # fmt: skip
    assert found == CHOICES  # what nobody has chosen yet is all that is refused


def test_what_is_for_a_person_is_listed():
    receipt = ridge().guarantee_
    bare, said = (set(to_fill(registry_entry(receipt, model_card=card))) for card in (None, CARD))
    assert {"url_slug", "deployment.basic.name", "deployment.implementation.justification", *CHOICES} <= bare
    assert said < bare
    for path in bare:
        assert TO_FILL in at(registry_entry(receipt), path)
    every = registry_entry(receipt, model_card=dict.fromkeys(CARD_FIELDS, "said"))
    assert set(to_fill(every)) < said  # the card cannot say all of it
    assert registry_text(registry_entry(receipt)).count(TO_FILL) == len(bare)


def test_registry_says_what_the_receipt_says():
    assert registry_entry(made_up(event=PureEvent(1.0), delta=0.0))["deployment"]["dp_variant"] == {
        **registry_entry(made_up())["deployment"]["dp_variant"], "variant_name": "Pure DP",
    }  # fmt: skip
    persons = made_up(unit="one person: all rows of one group, of which at most 3 rows are used, labels included")
    assert "number_of_privacy_units" in " ".join(to_fill(registry_entry(persons)))
    devices = made_up(parameters={"n_reports": 5})
    assert registry_entry(devices)["deployment"]["deployment_model"]["model_name"] == "Local"
    parties = made_up(parameters={"described": {}})
    assert registry_entry(parties)["deployment"]["deployment_model"]["model_name"].startswith(TO_FILL)
    for receipt in (made_up(event=NonPrivateEvent(), epsilon=math.inf), made_up(seeded=True)):
        with pytest.raises(ParameterError, match=r"the registry is for private releases\. .*NOT PRIVATE"):
            registry_entry(receipt)
    with pytest.raises(ParameterError, match="the registry is for private releases"):
        registry_entry(made_up(event=NothingReleased(), epsilon=0.0))
