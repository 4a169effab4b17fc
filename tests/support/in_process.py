"""A client of an ASGI application in this process, with its start and its end."""

import asyncio
from typing import Any, Self

import httpx


class InProcessClient:
    """Sends requests to an application without a network; use it in a ``with`` statement.

    ``starts``: whether the application is told that it starts and ends.
    """

    def __init__(self, app: Any, *, starts: bool = True) -> None:
        self._app, self._starts = app, starts
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self._runner.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._stop())
        self._runner.close()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request and return the answer."""
        content = options.get("content")
        if content is not None and not isinstance(content, (bytes, str)):
            options["content"] = _asynchronous(content)
        return self._runner.run(self._client.request(method, path, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def options(self, path: str, **options: Any) -> httpx.Response:
        return self.request("OPTIONS", path, **options)

    async def _start(self) -> None:
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url="http://collector")
        if not self._starts:
            return
        self._inbox: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._outbox: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._life = asyncio.create_task(
            self._app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, self._inbox.get, self._outbox.put)
        )
        await self._inbox.put({"type": "lifespan.startup"})
        assert (await self._outbox.get())["type"] == "lifespan.startup.complete"

    async def _stop(self) -> None:
        await self._client.aclose()
        if not self._starts:
            return
        await self._inbox.put({"type": "lifespan.shutdown"})
        assert (await self._outbox.get())["type"] == "lifespan.shutdown.complete"
        await self._life


async def _asynchronous(parts: Any) -> Any:
    for part in parts:
        yield part
