"""Every error and warning that sottovoce raises on purpose.

Errors are raised before any noise is drawn wherever the cause can be known by then. They are shown to the person who
holds the data: they may quote a value of the data, so treat them as private when the data are.
"""

__all__ = [
    "AccountingError", "AuditError", "BudgetError", "ClusterError", "DataError", "LedgerError",
    "LedgerIntegrityError", "MessageError", "ModelFormatError", "ParameterError", "PartyError", "PrivacyWarning",
    "SchemaError", "SottovoceError", "SottovoceWarning", "StorageError", "TableError",
]  # fmt: skip


class SottovoceError(Exception):
    """Base of every error that sottovoce raises on purpose."""


class ParameterError(SottovoceError, ValueError):
    """An argument is missing, out of range, or does not fit another argument."""


class DataError(SottovoceError, ValueError):
    """The data break a public fact that was declared about them (finite values, label bounds, class list)."""


class TableError(DataError):
    """A file, a column or a line of a table cannot be used; the message names all three where they are known."""


class SchemaError(SottovoceError, ValueError):
    """A schema file is wrong; the message names the entry and the remedy."""


class ModelFormatError(SottovoceError, ValueError):
    """A model or receipt file cannot be read by this version."""


class AccountingError(SottovoceError, ValueError):
    """An event cannot be accounted by this accountant, or a run would overspend its plan."""


class MessageError(SottovoceError, ValueError):
    """Bytes or values are not a message between coordinator and party."""


class PartyError(SottovoceError):
    """A party of a vertical training refused or failed; the message names it and tells nothing about its data."""


class ClusterError(SottovoceError):
    """The workers or the scheduler of a cluster are gone, cannot be reached, or are lost faster than rebuilt."""


class LedgerError(SottovoceError):
    """A privacy ledger cannot be used: it is not there, cannot be reached, or was asked for what it does not do."""


class BudgetError(LedgerError, ValueError):
    """A charge does not fit the budget of its data set.

    Attributes
    ----------
    budget : tuple of float
        (epsilon, delta) of the data set.
    spent : float
        Epsilon that was spent before, at that delta.
    asked : float
        Epsilon that the charge would have brought it to.
    """

    def __init__(self, message: str, budget: tuple[float, float], spent: float, asked: float) -> None:
        super().__init__(message, budget, spent, asked)
        self.budget = budget
        self.spent = spent
        self.asked = asked

    def __str__(self) -> str:
        return str(self.args[0])


class LedgerIntegrityError(LedgerError):
    """The entries of a ledger were changed, lost or put in another order: do not train on its data sets."""


class StorageError(SottovoceError):
    """A database or the scratch disk cannot be used: out of reach, of another version, full, or not durable."""


class AuditError(SottovoceError):
    """An estimator under audit failed, or cannot be run; the message quotes its own."""


class SottovoceWarning(UserWarning):
    """Base of every warning that sottovoce issues on purpose."""


class PrivacyWarning(SottovoceWarning):
    """The guarantee is weaker than it may look; the receipt says the same."""
