"""A receipt of Bernstein reports is verified in its room; the product's reader refuses it in words."""

import json

import pytest

from sottovoce._plain_data import digest
from sottovoce.exceptions import ModelFormatError
from sottovoce.papers.ldp import BernsteinProtocol, verify_receipt
from sottovoce.papers.ldp.server import guarantee
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report import verify_receipt as verify_for_the_product


def stored(folder, receipt, **changed):
    """Write a receipt, edited by a forger who mends sentence and checksum."""
    data = json.loads(receipt.to_json())
    for name, value in changed.items():
        if name in data:
            data[name] = value
        else:
            data["parameters"][name.replace("_", " ") if name not in data["parameters"] else name] = value
    data["statement"] = Guarantee.from_dict(data).statement()
    data["checksum"] = digest({key: value for key, value in data.items() if key not in ("checksum", "signature")})
    path = folder / "receipt.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def receipt(**changed):
    return guarantee(
        BernsteinProtocol(**{"loss": "hinge", "n_features": 3, "epsilon": 2.0, "delta": 1e-6} | changed), 9
    )


@pytest.mark.filterwarnings("ignore::sottovoce.exceptions.PrivacyWarning")
@pytest.mark.parametrize("changed", [{}, {"noise": "printed"}, {"loss": "huber residual", "degree": 3}])
def test_an_honest_receipt_passes(tmp_path, changed):
    made = receipt(**changed)
    path = tmp_path / "receipt.json"
    path.write_text(made.to_json(), encoding="utf-8")
    assert verify_receipt(path) == made


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"reports": 10}, None),  # as honest as 9: how many reported follows from nothing else
        ({"reports": 0}, "reports"),
        ({"reports": "many"}, "reports"),
        ({"n_features": -1}, "n_features"),
        ({"noise": "printed"}, "mechanism"),
        ({"noise": []}, "noise"),
        ({"loss": "logistic"}, "parameters"),
        ({"data_norm": 2.0}, "parameters"),
        ({"beta": 0.5}, "parameters"),
        ({"claimed_epsilon": 1.0}, "event"),
        ({"noise_of_copy_0": 0.1}, "parameters"),
        ({"protocol": "00" * 8}, "parameters"),
        ({"assumptions": []}, "assumptions"),
        ({"unit": "nobody"}, "unit"),
        ({"proof": "docs/privacy/newton.md"}, "proof"),
        ({"degree": 2}, "mechanism, releases"),
    ],
)
def test_forgeries_are_named(tmp_path, changed, why):
    path = stored(tmp_path, receipt(), **changed)
    if why is None:
        assert verify_receipt(path).parameters["reports"] == 10
        return
    with pytest.raises(ModelFormatError, match=why):
        verify_receipt(path)


def test_the_product_refuses_it_in_words(tmp_path):
    found = verify_for_the_product(stored(tmp_path, receipt()))
    assert not found.passed
    assert ["it knows no such mechanism" in check.detail for check in found.checks if not check.passed] == [True]


def test_other_receipts_are_refused(tmp_path):
    from sottovoce.local.fits.receipts import local_receipt

    other = local_receipt("00" * 8, "cap", 1.0, 10, public_rows=False, shuffled_delta=None)
    (tmp_path / "other.json").write_text(other.to_json(), encoding="utf-8")
    with pytest.raises(ModelFormatError, match="no collection of Bernstein reports"):
        verify_receipt(tmp_path / "other.json")
