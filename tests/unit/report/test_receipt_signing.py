"""Signatures on receipts: the right key, the right bytes, nothing else; and sums of receipts."""

import json
import math
import stat
import sys

import pytest
from typer.testing import CliRunner

from sottovoce._optional import Optional
from sottovoce.cli import app
from sottovoce.estimators.persistence import save_model
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import gaussian_epsilon
from sottovoce.privacy.events import GaussianEvent, NonPrivateEvent, PureEvent
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report import make_key, read_receipt, receipt_page, sign_receipt, signing, sum_receipts, verify_receipt
from sottovoce.report.reading import fingerprint
from support.receipts import bernstein, fitted

FIELDS = {
    "adjacency": "zero-out", "unit": "one row", "mechanism": "a mechanism", "releases": ("the weights",),
    "assumptions": (), "not_covered": (), "seeded": False, "accountant": "a", "proof": "p", "version": "0.1.0",
}  # fmt: skip


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path):
    receipt = fitted("ridge scd").guarantee_
    (tmp_path / "r.json").write_text(receipt.to_json())
    make_key(tmp_path / "officer.key")
    make_key(tmp_path / "other.key")
    (tmp_path / "signed.json").write_text(sign_receipt(receipt, tmp_path / "officer.key").to_json())
    return tmp_path


def check(found, name="signature"):
    return next(check for check in found.checks if check.name == name)


def test_the_private_key_is_for_its_owner_alone(folder):
    assert stat.S_IMODE((folder / "officer.key").stat().st_mode) == 0o600
    assert "PRIVATE" not in (folder / "officer.key.pub").read_text()
    before = (folder / "officer.key").read_bytes()
    for taken in ("officer.key", "half.key"):
        (folder / "half.key.pub").touch()
        with pytest.raises(ParameterError, match=r"the file exists\. A key is never replaced"):
            make_key(folder / taken)
    assert (folder / "officer.key").read_bytes() == before and not (folder / "half.key").exists()
    with pytest.raises(ParameterError, match="cannot write the key"):
        make_key(folder / "none" / "k")


def test_a_signature_is_checked_offline(folder):
    key = folder / "officer.key.pub"
    found = verify_receipt(folder / "signed.json", public_key=key)
    assert found.passed and check(found).passed
    assert not any("without a signature" in text for text in found.not_checkable)
    unsigned, signed = read_receipt(folder / "r.json"), read_receipt(folder / "signed.json")
    assert fingerprint(unsigned) == fingerprint(signed)
    assert sign_receipt(signed, folder / "officer.key") == signed  # Ed25519 draws nothing
    found = verify_receipt(folder / "signed.json")
    assert found.passed and any("without a signature that you checked" in text for text in found.not_checkable)


@pytest.mark.parametrize(
    ("file", "key", "why"),
    [("r.json", "officer.key.pub", "the receipt is not signed"), ("signed.json", "other.key.pub", "names another key")],
)
def test_a_missing_or_foreign_signature_fails(folder, file, key, why):
    found = verify_receipt(folder / file, public_key=folder / key)
    assert not found.passed and why in check(found).detail
    assert [other.name for other in found.checks if not other.passed] == ["signature"]


@pytest.mark.parametrize("entry", ["day", "model", "ledger", "parameters", "releases", "unit", "epsilon", "signature"])
def test_a_changed_entry_breaks_the_signature(folder, entry):
    data = json.loads((folder / "signed.json").read_text())
    data[entry] = {
        "day": "2020-01-01", "model": 64 * "1", "epsilon": 1.25, "unit": "one person", "releases": ["nothing"],
        "ledger": {"ledger": "a", "dataset": "b", "charge": "c", "entry": "d"},
        "parameters": {**data["parameters"], "passes": 3},
        "signature": {**data["signature"], "value": 128 * "0"},
    }[entry]  # fmt: skip
    (folder / "signed.json").write_text(json.dumps(data))
    found = verify_receipt(folder / "signed.json", public_key=folder / "officer.key.pub")
    assert "was not made by this key" in check(found).detail


def test_a_changed_byte_of_any_kind_fails(folder):
    raw = (folder / "signed.json").read_bytes()
    (folder / "spaced.json").write_bytes(raw.replace(b'"epsilon": 1.0', b'"epsilon":  1.00', 1))
    found = verify_receipt(folder / "spaced.json", public_key=folder / "officer.key.pub")
    assert not found.passed and "not letter by letter" in check(found).detail
    assert verify_receipt(folder / "signed.json", public_key=folder / "officer.key.pub").passed


def test_keys_of_other_kinds_are_refused(folder):
    (folder / "text").write_text("no key")
    for name, message in (("text", "not a public key"), ("officer.key", "not a public key"), ("no", "cannot read")):
        with pytest.raises(ParameterError, match=message):
            verify_receipt(folder / "r.json", public_key=folder / name)
    for name, message in (("text", "not a private key"), ("officer.key.pub", "not a private key")):
        with pytest.raises(ParameterError, match=message):
            sign_receipt(read_receipt(folder / "r.json"), folder / name)


def test_without_the_library(folder, monkeypatch):
    for name in ("_ed25519", "_serialization"):
        library = vars(getattr(signing, name))["_name"]
        monkeypatch.setattr(signing, name, Optional(library, purpose="signatures need", extra="sign"))
        monkeypatch.setitem(sys.modules, library, None)
    receipt = read_receipt(folder / "r.json")
    asked = make_key, lambda key: sign_receipt(receipt, key), lambda key: verify_receipt(receipt, public_key=key)
    for ask in asked:
        with pytest.raises(ParameterError, match=r'^signatures need cryptography, .* install "sottovoce\[sign\]"'):
            ask(folder / "officer.key")


def test_the_page_shows_the_signature(folder):
    signed = read_receipt(folder / "signed.json")
    page = receipt_page(signed)
    assert signed.signature["public_key"] in page
    (folder / "page.html").write_text(page)
    assert verify_receipt(folder / "page.html", public_key=folder / "officer.key.pub").passed


def test_the_command_line(folder):
    assert run("receipt", "key", "--out", folder / "mine.key").exit_code == 0
    result = run("receipt", "sign", folder / "r.json", "--key", folder / "mine.key")
    assert result.exit_code == 0 and fingerprint(read_receipt(folder / "r.json")) in result.output
    key = folder / "mine.key.pub"
    assert run("receipt", "verify", folder / "r.json", "--public-key", key).exit_code == 0
    assert run("receipt", "verify", folder / "signed.json", "--public-key", key).exit_code == 2
    save_model(fitted("ridge scd"), folder / "model.json")
    assert run("receipt", "verify", folder / "r.json", "--model", folder / "model.json").exit_code == 0
    result = run("receipt", "sign", folder / "model.json", "--key", folder / "mine.key")
    assert result.exit_code == 2 and "this is a model" in " ".join(result.output.split())
    data = json.loads((folder / "r.json").read_text()) | {"unit": "one person"}
    (folder / "bad.json").write_text(json.dumps(data))
    before = (folder / "bad.json").read_bytes()
    assert run("receipt", "sign", folder / "bad.json", "--key", folder / "mine.key").exit_code == 2
    assert (folder / "bad.json").read_bytes() == before


# --- sums -------------------------------------------------------------------------------------------------------------


def gaussian(mu, **changes):
    fields = {"epsilon": gaussian_epsilon(mu, 1e-5) * (1 + 1e-9), "delta": 1e-5, "event": GaussianEvent(1.0 / mu)}
    return Guarantee(**(FIELDS | fields | changes))


def test_gaussians_add_up_in_squares():
    found = sum_receipts([gaussian(0.3), gaussian(0.4)])
    assert found.epsilon == pytest.approx(gaussian_epsilon(0.5, 1e-5), rel=1e-12)
    assert (found.delta, found.adjacency, found.unit) == (1e-5, "zero-out", "one row")
    assert "fixed before the first run" in " ".join(found.assumed)
    assert sum_receipts([gaussian(0.3), gaussian(0.4)], delta=1e-7).epsilon > found.epsilon
    alone = sum_receipts([gaussian(0.3)])
    assert alone.epsilon == pytest.approx(gaussian_epsilon(0.3, 1e-5), rel=1e-12)
    assert alone.statement().startswith("Together 1 run is (")
    assert "Together 2 runs are" in found.statement()


def test_pure_releases_and_searches_add_up():
    pure = Guarantee(**FIELDS, epsilon=0.5, delta=0.0, event=PureEvent(0.5))
    other = Guarantee(**FIELDS, epsilon=0.25, delta=0.0, event=PureEvent(0.25))
    assert sum_receipts([pure, other]).epsilon == pytest.approx(0.75)
    search, ridge = fitted("search").guarantee_, fitted("ridge scd").guarantee_
    found = sum_receipts([search, ridge])
    # whoever accounts: not less than the more expensive one, not more than both at half of delta
    assert 1.0 <= found.epsilon <= search.epsilon_at(5e-6) + ridge.epsilon_at(5e-6)


def test_no_promise_stays_none():
    found = sum_receipts([gaussian(0.3), gaussian(0.3, epsilon=math.inf, event=NonPrivateEvent())])
    assert math.isinf(found.epsilon) and found.to_dict()["epsilon"] == "inf"
    assert "NOT PRIVATE" in found.statement()
    assert "can be repeated from a seed" in sum_receipts([gaussian(0.3, seeded=True)]).caveats[0]


@pytest.mark.parametrize(
    ("receipts", "message"),
    [
        ([], "at least one receipt"),
        ([gaussian(0.3), "x"], r"receipts\[1\] must be a Guarantee"),
        ([gaussian(0.3), gaussian(0.4), gaussian(0.3)], "receipts 1 and 3 are the same receipt"),
        ([gaussian(0.3), gaussian(0.4, unit="one visit")], "'one row', 'one visit'. .* again with the same unit"),
        ([gaussian(0.3), gaussian(0.4, adjacency="replace-one")], "do not add up: .* again with the same adjacency"),
    ],
)
def test_what_does_not_add_up(receipts, message):
    with pytest.raises(ParameterError, match=message):
        sum_receipts(receipts)


def test_sum_on_the_command_line(folder):
    (folder / "b.json").write_text(fitted("seeded").guarantee_.to_json())
    result = run("receipt", "sum", folder / "r.json", folder / "b.json", "--json")
    data = json.loads(result.stdout)
    assert data["epsilon"] > 1.0 and len(data["fingerprints"]) == 2
    assert any("name no entry of a ledger" in text for text in data["caveats"])
    assert "same people" in " ".join(run("receipt", "sum", folder / "r.json", folder / "b.json").output.split())
    result = run("receipt", "sum", folder / "r.json", folder / "signed.json")  # signing makes no second run of it
    assert result.exit_code == 2 and "are the same receipt" in " ".join(result.output.split())
    (folder / "c.json").write_text(bernstein().to_json())
    result = run("receipt", "sum", folder / "r.json", folder / "c.json")
    assert result.exit_code == 2 and "do not add up" in " ".join(result.output.split())
