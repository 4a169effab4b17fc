"""The name by which the owner of a table allows what the papers print."""

from sottovoce.vertical.protocol import Answer

__all__ = ["PUBLISHED"]

PUBLISHED = Answer("published", "what the papers print, for study", charged=True)
