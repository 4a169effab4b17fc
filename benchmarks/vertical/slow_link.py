"""A slow link: a TCP forwarder that adds latency and keeps to a rate, as between organisations.

``with SlowLink("127.0.0.1:21210", latency=0.01, rate=12.5e6) as link: connect_to(link.address)``.
"""

import asyncio
import threading

_PIECE = 1 << 16


class SlowLink:
    """Forwards connections to ``target``, each direction with its own queue.

    Every byte is held back for ``latency`` seconds in each direction, half of a round trip; all connections together
    carry ``rate`` bytes a second in each direction. Once entered, it listens at ``address``.
    """

    def __init__(self, target, *, latency=0.01, rate=12.5e6):
        self.target, self.latency, self.rate, self.address = target, latency, rate, None
        self._free = [0.0, 0.0]  # when each direction of the wire is free again
        self._tasks = set()

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self.open())
        return self

    def __exit__(self, *_):
        self._do(self.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, coroutine):
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def open(self):
        """Listen."""
        self._server = await asyncio.start_server(self._on, "127.0.0.1", 0)
        found = self._server.sockets[0].getsockname()
        self.address = f"{found[0]}:{found[1]}"

    async def close(self):
        """Cut all connections."""
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _on(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        writers = [writer]
        try:
            host, port = self.target.rsplit(":", 1)
            other_reader, other_writer = await self._reach(host, int(port))
            writers.append(other_writer)
            await asyncio.gather(self._pump(0, reader, other_writer), self._pump(1, other_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(asyncio.current_task())
            for each in writers:
                each.close()

    async def _reach(self, host, port):
        """Wait for a target that does not listen yet: a network would refuse what a forwarder has taken."""
        for _ in range(600):
            try:
                return await asyncio.open_connection(host, port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.1)
        raise ConnectionRefusedError

    async def _pump(self, direction, reader, writer):
        loop = asyncio.get_running_loop()
        queue = asyncio.Queue(maxsize=1024)  # 64 MiB on the way at most

        async def send():
            while True:
                due, piece = await queue.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if piece is None:
                    if writer.can_write_eof():
                        writer.write_eof()
                    else:
                        writer.close()
                    return
                writer.write(piece)
                await writer.drain()

        sending = asyncio.ensure_future(send())
        try:
            while piece := await reader.read(_PIECE):
                # the wire takes pieces one after another; each arrives a latency after its last byte left
                self._free[direction] = max(self._free[direction], loop.time()) + len(piece) / self.rate
                await queue.put((self._free[direction] + self.latency, piece))
            await queue.put((loop.time() + self.latency, None))
            await sending
        finally:
            sending.cancel()
