"""Links between the parties of a session of the engine "shamir": TCP, TLS with the cards' certificates, deadlines.

The lower rank calls the higher one and says its rank in two bytes, little endian; who is called answers with its own.
From then on either side sends messages: label and length as u64, little endian, and the bytes. Both count labels alike,
so that a message may be taken later than one behind it. None is read before it is due here, and a partner that sends
another one has its line cut: nobody fills another's memory. A partner must show the certificate of its own rank before
it is told anything; one that is lost, late or unknown ends the session with words.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, Final

from sottovoce.vertical.engines.engine import EngineError

_RETRY: Final = 0.05  # seconds between attempts to reach a partner that does not listen yet
_FLUSH: Final = 5.0  # seconds that a session's last bytes have at its end
_TURNS: Final = 5  # of the loop
_GREETING: Final = 2  # bytes
_HEAD: Final = struct.Struct("<QQ")
_AHEAD: Final = 2**20  # bytes that are read before anybody asks for them
_OVER: Final = "this joint computation is over; begin a new one"


class Links:
    """The links of one party.

    ``addresses``: "host:port" of each party.
    ``listen``: where this one listens, if not at its address.
    ``tls``: as for `sottovoce.vertical.engines.process.EngineProcess`.
    ``timeout``: seconds that partners may take for anything.
    """

    def __init__(
        self, rank: int, addresses: Sequence[str], listen: str | None, tls: Path | None, timeout: float
    ) -> None:
        self._rank, self._timeout = rank, timeout
        self._places = [_place(address) for address in addresses]
        self._listen = _place(listen) if listen else self._places[rank]
        self._tls = None if tls is None else _Tls(tls, rank, len(self._places))
        self._label, self._greeting = 0, rank.to_bytes(_GREETING, "little")
        self._flush = _FLUSH
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._links: dict[int, _Link] = {}
        # all lines but those of strangers that were cut, from before their handshake: all are cut at the end
        self._made: set[asyncio.WriteTransport] = set()
        self._complete, self._over = asyncio.Event(), asyncio.Event()

    def open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, args=(self._loop,), name="links", daemon=True)
        self._thread.start()
        self._do(self._open())

    def due(self, peers: Collection[int], sizes: Sequence[int]) -> range:
        """Return the labels of the next messages, the same at all parties: ``peers`` send them, of so many bytes."""
        labels = range(self._label + 1, self._label + 1 + len(sizes))
        self._label += len(sizes)
        self._do(self._expect(peers, dict(zip(labels, sizes, strict=True))))
        return labels

    def swap(
        self, step: int, messages: Mapping[int, bytes | memoryview], expected: Collection[int]
    ) -> dict[int, bytes]:
        """Send ``messages`` to partners by rank, and return what each of ``expected`` sends at that step."""
        found: dict[int, bytes] = self._do(self._swap(step, messages, expected))
        return found

    def close(self) -> None:
        """Cut all links, after what waits to be sent; never raises."""
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(self._over.set)
            self._thread.join(_FLUSH + 1)

    def _do(self, work: Any) -> Any:
        if self._loop is None:
            work.close()
            raise EngineError(_OVER)
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except CancelledError:
            raise EngineError(_OVER) from None

    # ------------------------------------------------------------------ in the loop's own thread

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_until_complete(self._live())
        loop.close()

    async def _live(self) -> None:
        await self._over.wait()
        kept = {asyncio.current_task(), *(link.reading for link in self._links.values())}
        while others := asyncio.all_tasks() - kept:
            await _handed_over()
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        closing = [asyncio.ensure_future(link.close()) for link in self._links.values()]
        if closing:
            await asyncio.wait(closing, timeout=self._flush)
        for line in self._made:
            line.abort()
        for link in self._links.values():
            link.reading.cancel()
        await asyncio.sleep(_RETRY)  # until they are closed

    async def _open(self) -> None:
        # strangers at the door are no news, and a partner that leaves is told of by whoever waits for it
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        try:
            async with asyncio.timeout(self._timeout):
                await self._meet()
        except TimeoutError:
            missing = (rank for rank in range(len(self._places)) if rank not in {self._rank, *self._links})
            raise EngineError(
                f"{_parties(missing)} did not connect within {self._timeout:g} s: is it running, and does its "
                "address reach it?"
            ) from None

    async def _meet(self) -> None:
        server, loop = None, asyncio.get_running_loop()
        if self._rank:
            try:
                server = await asyncio.start_server(self._called, *self._listen, limit=_AHEAD)
            except OSError:
                raise EngineError(f"party {self._rank} cannot listen at the port of its card") from None
        try:
            later = range(self._rank + 1, len(self._places))
            await asyncio.gather(*(self._call(peer) for peer in later))
            await self._complete.wait()
        finally:
            if server is not None:
                for door in server.sockets:
                    loop.remove_reader(door.fileno())
                await _handed_over()
                server.close()

    async def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a call, if it is of a lower rank that has none yet, and has the certificate of that rank."""
        self._made.add(line := writer.transport)
        with contextlib.suppress(OSError, EngineError, asyncio.IncompleteReadError):
            if self._tls is not None:
                await writer.start_tls(self._tls.server)
            rank = int.from_bytes(await reader.readexactly(_GREETING), "little")
            if rank < self._rank and self._knows(rank, writer):
                writer.write(self._greeting)
                self._joined(rank, reader, writer)
                return
        writer.transport.abort()
        self._made.discard(line)  # nobody fills the memory with lines

    async def _call(self, peer: int) -> None:
        """Call until greeted: what answers first may be a proxy, or a port that is forwarded, before the partner."""
        strange = EngineError(f"who answers at the address of party {peer} has not the certificate of its card")
        while True:
            try:
                reader, writer = await asyncio.open_connection(*self._places[peer], limit=_AHEAD)
                self._made.add(writer.transport)
                if self._tls is not None:
                    await writer.start_tls(self._tls.client)
            except ssl.SSLCertVerificationError:
                raise strange from None
            except OSError:  # it does not listen yet
                await asyncio.sleep(_RETRY)
                continue
            if not self._knows(peer, writer):  # before it is told anything
                writer.transport.abort()
                raise strange
            try:
                writer.write(self._greeting)
                if int.from_bytes(await reader.readexactly(_GREETING), "little") == peer:
                    self._joined(peer, reader, writer)
                    return
            except ssl.SSLError:
                raise EngineError(f"party {peer} does not accept the certificate of this party's card") from None
            except (OSError, asyncio.IncompleteReadError):
                pass
            writer.transport.abort()
            await asyncio.sleep(_RETRY)

    def _knows(self, rank: int, writer: asyncio.StreamWriter) -> bool:
        """Tell whether who is at the other end may be the party of that rank."""
        if rank in self._links and self._links[rank].lost is None:
            return False
        if self._tls is None:
            return True
        shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown == self._tls.certificates[rank]

    def _joined(self, rank: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._links[rank] = _Link(rank, reader, writer)
        if len(self._links) == len(self._places) - 1:
            self._complete.set()

    async def _expect(self, peers: Collection[int], sizes: Mapping[int, int]) -> None:
        for peer, link in self._links.items():
            link.expect(self._label, sizes if peer in peers else {})

    async def _swap(
        self, label: int, messages: Mapping[int, bytes | memoryview], expected: Collection[int]
    ) -> dict[int, bytes]:
        waited: dict[int, asyncio.Future[Any]] = {
            peer: asyncio.ensure_future(self._links[peer].take(label)) for peer in expected
        }
        for peer, message in messages.items():
            waited[~peer] = asyncio.ensure_future(self._links[peer].give(label, message))
        if not waited:
            return {}
        done, late = await asyncio.wait(waited.values(), timeout=self._timeout, return_when=asyncio.FIRST_EXCEPTION)
        for each in late:
            each.cancel()
        for each in done:
            each.result()
        if late:
            slow = sorted({max(peer, ~peer) for peer, each in waited.items() if each in late})
            self._flush = 0.0  # they would not take the last bytes either
            raise EngineError(
                f"{_parties(slow)} did not answer within {self._timeout:g} s: its network or its process may have "
                "stopped"
            )
        return {peer: waited[peer].result() for peer in expected}


class _Link:
    """The link with one partner; ``lost`` tells why it is over."""

    def __init__(self, peer: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lost: EngineError | None = None
        self.came: dict[int, asyncio.Future[bytes]] = {}  # by label: what came, or is waited for
        self._peer, self._reader, self._writer = peer, reader, writer
        self._sizes: dict[int, int] = {}  # by label: bytes of a message that has not begun to come
        self._last, self._more = 0, asyncio.Event()  # the last label that is due by now
        # drained then means: all is sent (with 0, TLS stays paused)
        writer.transport.set_write_buffer_limits(high=1)
        self.reading = asyncio.ensure_future(self._read())

    def expect(self, last: int, sizes: Mapping[int, int]) -> None:
        """Let messages come, up to the label ``last``; those of ``sizes`` alone."""
        self._last = last
        self._sizes |= sizes
        if self.lost is None:
            self.came |= {label: asyncio.get_running_loop().create_future() for label in sizes}
        self._more.set()

    async def give(self, label: int, message: bytes | memoryview) -> None:
        try:
            self._writer.write(_HEAD.pack(label, len(message)))
            self._writer.write(message)
            await self._writer.drain()
        except OSError:
            raise self.lost or self._left() from None

    async def take(self, label: int) -> bytes:
        if label not in self.came:
            raise self.lost or self._left()
        message = await self.came[label]
        del self.came[label]
        return message

    async def _read(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                label, size = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
                while label > self._last:  # it is ahead: what it sends waits at its own end
                    self._more.clear()
                    await self._more.wait()
                if self._sizes.pop(label, None) != size:
                    self.lost = EngineError(f"party {self._peer} sent what nobody waits for: its programs differ")
                    self._writer.transport.abort()
                    break
                message, coming = await self._reader.readexactly(size), self.came[label]
                if not coming.done():  # nobody waits any more
                    coming.set_result(message)
        self.lost = self.lost or self._left()
        for coming in self.came.values():
            if not coming.done():
                coming.set_exception(self.lost)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    def _left(self) -> EngineError:
        return EngineError(f"party {self._peer} has left the joint computation, or the network cut it off")


class _Tls:
    """TLS on both sides; exactly the partners' session certificates are trusted, each for its own rank."""

    def __init__(self, folder: Path, rank: int, n_parties: int) -> None:
        self.server, self.client = (
            ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        )  # fmt: skip
        self.client.check_hostname = False  # a partner is known by its certificate, wherever it is
        try:
            for context in (self.server, self.client):
                context.minimum_version = ssl.TLSVersion.TLSv1_3
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
                context.load_verify_locations(folder / "partners.pem")
            text = (folder / "partners.pem").read_text(encoding="ascii")
        except (OSError, ValueError):  # ssl.SSLError is an OSError
            raise EngineError("the session's key or certificates cannot be used; begin again") from None
        end = "-----END CERTIFICATE-----"
        shown = [ssl.PEM_cert_to_DER_cert(part.strip() + "\n" + end) for part in text.split(end)[:-1]]
        if len(shown) != n_parties - 1:
            raise EngineError(f"{len(shown)} certificates came for {n_parties - 1} partners; begin again")
        partners = (other for other in range(n_parties) if other != rank)
        self.certificates = dict(zip(partners, shown, strict=True))


async def _handed_over() -> None:
    """Wait until asyncio has handed over what it has accepted; what it still has when a server closes is lost, open."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


def _parties(ranks: Iterable[int]) -> str:
    return ", ".join(f"party {rank}" for rank in ranks)  # each so that whoever knows names can put them in


def _place(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host, int(port)
