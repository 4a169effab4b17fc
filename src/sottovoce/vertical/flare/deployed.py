"""What a run may bring to a party: its two configuration files and their signatures, and nothing else.

FLARE refuses code in an app's folder ``custom``. It looks for its own settings anywhere below a site's folder, though,
runs included: a ``comm_config.json`` among a run's files could name a folder of the run to load drivers from.
"""

from __future__ import annotations

import io
import zipfile
from typing import Final

__all__ = ["why_not_deployed"]

_SIGNATURES: Final = (".__nvfl_sig.json", ".__nvfl_submitter.crt")
_ALLOWED: Final = frozenset({
    "config/config_fed_client.json", "config/config_fed_server.json", *_SIGNATURES,
    *(f"config/{name}" for name in _SIGNATURES),
})  # fmt: skip
_MOST_BYTES: Final = 1_000_000


def why_not_deployed(packed: object) -> str:
    """Return why an app is refused; empty if it is not.

    Parameters
    ----------
    packed : bytes
        The app as the coordinator sent it, a zip file.
    """
    if not isinstance(packed, bytes):
        return "what it brings is no zip file"
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as app:
            entries = app.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return "what it brings is no zip file"
    for entry in entries:
        if entry.filename not in _ALLOWED and entry.filename != "config/":
            return f"it brings the file {entry.filename[:100]!r}; a run brings its configuration and nothing else"
    if sum(entry.file_size for entry in entries) > _MOST_BYTES:
        return f"its configuration has more than {_MOST_BYTES:,} bytes"
    return ""
