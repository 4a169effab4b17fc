"""The receipt for people: as a page to read and keep; verified, signed, added up."""

from sottovoce.report.curve import PrivacyCurve, privacy_curve
from sottovoce.report.pages.page import receipt_page
from sottovoce.report.reading import read_model_card, read_receipt
from sottovoce.report.signing import make_key, sign_receipt
from sottovoce.report.sums import ReceiptSum, sum_receipts
from sottovoce.report.verification import Verification, verify_receipt

__all__ = [
    "PrivacyCurve", "ReceiptSum", "Verification", "make_key", "privacy_curve", "read_model_card", "read_receipt",
    "receipt_page", "sign_receipt", "sum_receipts", "verify_receipt",
]  # fmt: skip
