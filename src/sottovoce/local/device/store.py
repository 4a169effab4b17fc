"""DeviceStore: where a device keeps the report that it has made, and sends again, so that there is never a second.

A second report with fresh coins would cost epsilon a second time. The report is on the disk before anybody sees it; of
two programs that make one at the same time, both get the one that was kept first.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sottovoce._files import sync_folder
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.local.protocol import Protocol
from sottovoce.local.wire import Reason, parse


class DeviceStore:
    """A folder with one report a protocol, for one person.

    ``folder``, str or Path: made if it is missing. Several people on one device need a folder each.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, protocol: Protocol) -> Path:
        return self.folder / f"{protocol.id.hex()}.report"

    def once(self, protocol: Protocol, make: Callable[[], bytes], *, token: bytes | None = None) -> bytes:
        """Return the report that was kept, or make one and keep it.

        ``make``: makes the report; called only if none was kept.
        ``token``: the token that the report belongs to.

        Raises ParameterError if the folder cannot be written to, or the kept report belongs to another token.
        Raises DataError if the file holds no report of this protocol.
        """
        path = self.path(protocol)
        if not path.exists():
            self._keep(path, make)
        raw = path.read_bytes()
        if isinstance(parse(raw, protocol), Reason):
            raise DataError(
                f"{path} holds no report of this protocol. If one was sent before, another one "
                "would cost epsilon a second time. Restore the file, or send none."
            )
        if isinstance(parse(raw, protocol, token=token), Reason):
            raise ParameterError(
                f"token is not the one that the report in {path} was made for. A person has one report a protocol: "
                "give the first token."
            )
        return raw

    def _keep(self, path: Path, make: Callable[[], bytes]) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=".report.")
        except OSError as error:
            raise ParameterError(
                f"store {self.folder}: cannot write there: {error.strerror}. No report is made."
            ) from None
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(make())
                file.flush()
                os.fsync(handle)
            with suppress(FileExistsError):  # another program was first: its report is the one
                os.link(name, path)
            sync_folder(self.folder)
        except OSError as error:
            raise ParameterError(
                f"store {self.folder}: cannot write there: {error.strerror}. No report is sent."
            ) from None
        finally:
            Path(name).unlink()
