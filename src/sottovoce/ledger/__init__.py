"""A privacy budget on disk: charge first, append only, one chain of hashes."""

from sottovoce.ledger.book import ChargeRecord, Dataset
from sottovoce.ledger.ledger import Charge, Ledger
from sottovoce.ledger.verification import Verification, verify_export

__all__ = ["Charge", "ChargeRecord", "Dataset", "Ledger", "Verification", "verify_export"]
