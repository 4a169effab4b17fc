"""The organisation: its table, its budget, its sessions. It alone decodes, charges and runs."""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazy_names

if TYPE_CHECKING:
    from sottovoce.vertical.party.helper import Helper
    from sottovoce.vertical.party.party import Part, Party

__all__ = ["Helper", "Part", "Party"]

__getattr__ = lazy_names(__name__, {"Helper": "helper", "Part": "party", "Party": "party"})
