"""Links between the parties of an MPyC session: MPyC's runtime and messages, our own TLS, deadlines and checks.

MPyC opens its links by file names in the working directory, on all addresses, and believes what a caller says about
who it is. Here the links are opened where the plan says, each partner must show the certificate of its card, and a
partner that is lost, late or unknown ends the session with words.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
import threading
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sottovoce.vertical.engines.engine import EngineError

if TYPE_CHECKING:
    from sottovoce.vertical.engines.site import TlsFiles

_RETRY: Final = 0.05  # seconds between attempts to reach a partner that does not listen yet
_FLUSH: Final = 5.0  # seconds that a session's last bytes have at its end

_GREETING: Final = 0  # the label of what a partner that is called says first

_importing: Final = threading.Lock()


class Links:
    """The links of one party.

    ``addresses``: "host:port" of each party.
    ``listen``: where this one listens, if not at its address.
    ``tls``: the partners' certificates in the order of their ranks.
    ``timeout``: seconds that partners may take for anything.
    ``sent``: bytes so far.
    """

    def __init__(
        self, rank: int, addresses: Sequence[str], listen: str | None, tls: TlsFiles | None, timeout: float
    ) -> None:
        self._rank, self._timeout = rank, timeout
        self._places = [_place(address) for address in addresses]
        self._listen = _place(listen) if listen else self._places[rank]
        self._tls = None if tls is None else _Tls(tls, rank, len(self._places))
        self._label = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._links: dict[int, Any] = {}
        self._made: list[Any] = []
        self._complete = asyncio.Event()

    @property
    def sent(self) -> int:
        """Bytes sent to all partners, without TLS's own."""
        return sum(link.nbytes_sent for link in self._links.values())

    def open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name="links", daemon=True)
        self._thread.start()
        self._do(self._open())

    def steps(self, count: int = 1) -> range:
        """Return the labels of the next steps, which are the same at all parties."""
        first = self._label + 1
        self._label += count
        return range(first, self._label + 1)

    def swap(
        self, step: int, messages: Mapping[int, bytes | memoryview], expected: Collection[int]
    ) -> dict[int, bytes]:
        """Send ``messages`` to partners by rank, and return what each of ``expected`` sends at that step."""
        found: dict[int, bytes] = self._do(self._swap(step, messages, expected))
        return found

    def close(self) -> None:
        """Cut all links, after what waits to be sent; never raises."""
        loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._shut(), loop).result(_FLUSH + 1)
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(_FLUSH)

    # ------------------------------------------------------------------ asked by links

    def knows(self, rank: int, transport: Any, *, calls: bool) -> bool:
        """Whether who is at the other end may be the party of that rank; one that calls has a lower one."""
        if calls and not 0 <= rank < self._rank:
            return False
        if rank in self._links and self._links[rank].lost is None:
            return False
        if self._tls is None:
            return True
        shown: bytes | None = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown == self._tls.certificates[rank]

    def made(self, link: Any) -> None:
        """Note a link, whoever is at its other end: it is cut at the end."""
        self._made.append(link)

    def joined(self, rank: int, link: Any) -> None:
        self._links[rank] = link
        if len(self._links) == len(self._places) - 1:
            self._complete.set()

    # ------------------------------------------------------------------ in the loop's own thread

    def _do(self, work: Any) -> Any:
        if self._loop is None:
            work.close()
            raise EngineError("this joint computation is over; begin a new one")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self) -> None:
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
        exchanger, runtime = _mpyc()
        loop = asyncio.get_running_loop()
        options = runtime.mpyc._get_arg_parser().parse_args([])
        options.no_log, options.no_prss, options.threshold = True, True, (len(self._places) - 1) // 2
        parties = [runtime.Party(rank, *place) for rank, place in enumerate(self._places)]
        mpc = runtime.Runtime(self._rank, parties, options)
        # strangers at the door are no news, and a partner that leaves is told of by whoever waits for it
        loop.set_exception_handler(lambda *_: None)
        mpc.set_protocol = lambda *_: None  # it would count who called; `joined` counts who was greeted
        link = _link_class(exchanger, self)
        server = None
        if self._rank:  # as in MPyC the lower rank calls the higher one
            context = None if self._tls is None else self._tls.server
            try:
                server = await loop.create_server(lambda: link(mpc), *self._listen, ssl=context)
            except OSError:
                raise EngineError(f"party {self._rank} cannot listen at the port of its card") from None
        try:
            later = range(self._rank + 1, len(parties))
            await asyncio.gather(*(self._call(peer, partial(link, mpc, peer)) for peer in later))
            await self._complete.wait()
        finally:
            if server is not None:
                server.close()

    async def _call(self, peer: int, link: Any) -> None:
        """Call until greeted: what answers first may be a proxy, or a port that is forwarded, before the partner."""
        context = None if self._tls is None else self._tls.client
        strange = EngineError(f"who answers at the address of party {peer} has not the certificate of its card")
        while True:
            try:
                _, made = await asyncio.get_running_loop().create_connection(link, *self._places[peer], ssl=context)
            except ssl.SSLCertVerificationError:
                raise strange from None
            except OSError:  # it does not listen yet
                await asyncio.sleep(_RETRY)
                continue
            if not made.known:
                raise strange
            try:
                await made.take(_GREETING)
            except EngineError:
                if made.refused:
                    raise EngineError(f"party {peer} does not accept the certificate of this party's card") from None
                await asyncio.sleep(_RETRY)
            else:
                self.joined(peer, made)
                return

    async def _swap(
        self, label: int, messages: Mapping[int, bytes | memoryview], expected: Collection[int]
    ) -> dict[int, bytes]:
        for peer, message in messages.items():
            self._links[peer].give(label, message)
        waited = {peer: asyncio.ensure_future(self._links[peer].take(label)) for peer in expected}
        waited |= {~peer: asyncio.ensure_future(self._links[peer].writable.wait()) for peer in messages}
        if not waited:
            return {}
        done, late = await asyncio.wait(
            waited.values(), timeout=self._timeout, return_when=asyncio.FIRST_EXCEPTION
        )  # fmt: skip
        for each in late:
            each.cancel()
        for each in done:
            each.result()
        if late:
            slow = sorted({max(peer, ~peer) for peer, each in waited.items() if each in late})
            raise EngineError(
                f"{_parties(slow)} did not answer within {self._timeout:g} s: its network or its "
                "process may have stopped"
            )
        return {peer: waited[peer].result() for peer in expected}

    async def _shut(self) -> None:
        for link in self._made:
            link.transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH):
                while any(link.lost is None for link in self._made):
                    await asyncio.sleep(_RETRY / 10)
        for link in self._made:
            link.transport.abort()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(2 * _RETRY))  # so that they, and what they have aborted, end
        loop.close()


def _link_class(base: Any, links: Links) -> Any:
    """Return MPyC's end of a link, with our checks: MPyC is imported when a session begins, not before."""

    class Link(base):  # type: ignore[misc]
        """One link; ``lost`` tells why it is over."""

        def __init__(self, runtime: Any, peer: int | None = None) -> None:
            super().__init__(runtime, peer)
            self.lost: EngineError | None = None
            self.known, self.refused = True, False
            self.writable = asyncio.Event()
            self.writable.set()

        def connection_made(self, transport: Any) -> None:
            """Check who answers a call, before telling it anything."""
            transport.set_write_buffer_limits(high=1)  # `writable` then means: all is sent (with 0, TLS stays paused)
            self.transport = transport
            links.made(self)
            if self.peer_pid is not None and not links.knows(self.peer_pid, transport, calls=False):
                self.known = False
                transport.abort()
                return
            super().connection_made(transport)

        def data_received(self, data: bytes) -> None:
            """Check who calls: MPyC's first two bytes are a rank."""
            if self.peer_pid is None:
                self.bytes.extend(data)
                if len(self.bytes) < 2:
                    return
                rank = int.from_bytes(self.bytes[:2], "little")
                if not links.knows(rank, self.transport, calls=True):
                    self.transport.abort()
                    return
                links.joined(rank, self)
                self.send(_GREETING, b"")
                data = b""
            super().data_received(data)

        def give(self, label: int, message: bytes | memoryview) -> None:
            if self.lost is not None:
                raise self.lost
            self.send(label, message)

        async def take(self, label: int) -> bytes:
            if self.lost is not None and label not in self.buffers:
                raise self.lost
            got = self.receive(label)
            return bytes(await got if isinstance(got, asyncio.Future) else got)

        def pause_writing(self) -> None:
            self.writable.clear()

        def resume_writing(self) -> None:
            self.writable.set()

        def connection_lost(self, exc: Exception | None) -> None:
            self.lost = EngineError(f"party {self.peer_pid} has left the joint computation, or the network cut it off")
            self.refused = isinstance(exc, ssl.SSLError)
            self.writable.set()
            for got in self.buffers.values():
                if isinstance(got, asyncio.Future) and not got.done():
                    got.set_exception(self.lost)

    return Link


class _Tls:
    """TLS on both sides; exactly the partners' session certificates are trusted, each for its own rank."""

    def __init__(self, files: TlsFiles, rank: int, n_parties: int) -> None:
        self.server, self.client = (
            ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        )  # fmt: skip
        self.client.check_hostname = False  # a partner is known by its certificate, wherever it is
        try:
            for context in (self.server, self.client):
                context.minimum_version = ssl.TLSVersion.TLSv1_3
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_cert_chain(files.certificate, files.key)
                context.load_verify_locations(files.partners)
            text = Path(files.partners).read_text(encoding="ascii")
        except (OSError, ValueError):  # ssl.SSLError is an OSError
            raise EngineError("the session's key or certificates cannot be used; begin again") from None
        end = "-----END CERTIFICATE-----"
        shown = [ssl.PEM_cert_to_DER_cert(part.strip() + "\n" + end) for part in text.split(end)[:-1]]
        if len(shown) != n_parties - 1:
            raise EngineError(f"{len(shown)} certificates came for {n_parties - 1} partners; begin again")
        partners = (other for other in range(n_parties) if other != rank)
        self.certificates = dict(zip(partners, shown, strict=True))


def _parties(ranks: Iterable[int]) -> str:
    return ", ".join(f"party {rank}" for rank in ranks)  # each so that whoever knows names can put them in


def _place(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host, int(port)


def _mpyc() -> tuple[Any, Any]:
    """Import MPyC, which reads the command line when imported, as if that said: quiet, and nothing but Shamir."""
    with _importing, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of names that MPyC takes from NumPy
        given = sys.argv
        sys.argv = ["mpyc", "--no-log", "--no-prss", "--no-uvloop"]
        try:
            from mpyc import asyncoro, runtime
        except ImportError:
            raise EngineError("engine 'mpyc' is not installed: pip install 'sottovoce[secure]'") from None
        finally:
            sys.argv = given
    return asyncoro.MessageExchanger, runtime
