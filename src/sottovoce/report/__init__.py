"""The receipt for people: as a page to read, sign and keep; verified again; compared with another."""

from sottovoce.report.curve import PrivacyCurve, privacy_curve
from sottovoce.report.difference import ReceiptDifference, diff_receipts
from sottovoce.report.difference_page import difference_page
from sottovoce.report.model_card import CARD_FIELDS, read_model_card
from sottovoce.report.page import receipt_page
from sottovoce.report.reading import read_receipt
from sottovoce.report.verification import Verification, verify_receipt

__all__ = [
    "CARD_FIELDS",
    "PrivacyCurve",
    "ReceiptDifference",
    "Verification",
    "diff_receipts",
    "difference_page",
    "privacy_curve",
    "read_model_card",
    "read_receipt",
    "receipt_page",
    "verify_receipt",
]
