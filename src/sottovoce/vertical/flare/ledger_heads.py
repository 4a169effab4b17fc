"""What the coordinator was last told of each party's ledger: a copy or an old state of it is noticed by that.

A ledger is a chain: who names its last entry names all before it. A party is asked in each run whether its ledger still
has the entry that it named last; if not, charges are missing that somebody was told of.
"""

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sottovoce._files import write_whole
from sottovoce.exceptions import ParameterError

__all__ = ["LedgerHeads"]

_FILE: Final = "ledgers.json"


class LedgerHeads:
    """The last entry of each party's ledger that the coordinator was told of, in a file of its kit's ``state``."""

    def __init__(self, state: Path) -> None:
        self._path = Path(state) / _FILE
        self._lock = threading.Lock()

    def known(self, party: str) -> str:
        """Return the hash of the last entry, empty if there is none."""
        return str(self._read()["last"].get(party, {}).get("entry", ""))

    def told(self, party: str, run: str, entry: str) -> None:
        with self._lock:
            content = self._read()
            content["last"][party] = {"entry": entry, "run": run}
            self._write(content)

    def forget(self, party: str) -> str:
        """Take the party's ledger as it is from now on, and keep in the file that it was so; return the last entry."""
        content = self._read()
        if party not in content["last"]:
            raise ParameterError(
                f"--accept-ledger {party}: nothing is known of a ledger of such a party; known are those of "
                f"{', '.join(content['last']) or 'nobody'}."
            )
        last = content["last"].pop(party)
        day = datetime.now(UTC).date().isoformat()
        content["accepted"].append({"party": party, **last, "day": day})
        self._write(content)
        return str(last["entry"])

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            return {"last": dict(content["last"]), "accepted": list(content["accepted"])}
        except FileNotFoundError:
            return {"last": {}, "accepted": []}
        except (OSError, ValueError, KeyError, TypeError):
            raise ParameterError(
                f"{self._path}: cannot be read; it says which entries of the parties' ledgers are known here. Bring it "
                "back from a copy, or remove it: then the next run believes each party."
            ) from None

    def _write(self, content: dict[str, Any]) -> None:
        write_whole(self._path, json.dumps(content, indent=2) + "\n", private=True)
