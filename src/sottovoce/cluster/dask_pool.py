"""Workers of Dask. Its actors hold keepers; a lost one is told from a slow one here, and Dask retries nothing."""

import asyncio
import ipaddress
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from sottovoce._validation import number
from sottovoce.cluster.keeper import Answer, Call, Keeper, Lost, Worker
from sottovoce.exceptions import ClusterError, ParameterError, PrivacyWarning

if TYPE_CHECKING:
    from distributed import Client

_LOOK: Final = 1.0  # seconds between two looks at who has not answered
_SOON: Final = 5.0  # seconds that a worker which was silent has to show that it lives
_SLOWER: Final = 10.0  # times the slowest of the others, and the time limit: then a call is given up


def check_client(client: Any) -> "Client":
    """Return the client if it is one that can be used."""
    if find_spec("distributed") is None:
        raise ParameterError(
            "a table on many machines needs Dask, which is not installed: pip install 'sottovoce[cluster]'."
        )
    from distributed import Client

    if not isinstance(client, Client):
        raise ParameterError(
            f"client must be a dask.distributed.Client; got {type(client).__name__}. On one machine: "
            "Client(LocalCluster(n_workers=2, threads_per_worker=1))."
        )
    if client.asynchronous:
        raise ParameterError("client must not be asynchronous: make a Client without asynchronous=True.")
    if client.status != "running":
        raise ParameterError(f"client is {client.status}: make a new one.")
    return client


def warn_of_network(client: Any) -> None:
    """Warn where sums of private rows can be overheard."""
    seen: Any = client.scheduler_info(n_workers=-1)
    if in_clear := [place for place in (seen["address"], *seen["workers"]) if is_overheard(place)]:
        warnings.warn(
            f"{in_clear[0]} of the cluster talks without TLS: exact sums of private rows cross the network in clear, "
            "and whoever reaches the scheduler runs code where the rows are. Start the cluster with certificates, "
            "at tls://, or on a network that nobody else reaches.",
            PrivacyWarning,
            stacklevel=4,
        )


def is_overheard(place: str) -> bool:
    """Tell whether what is said to an address crosses a network in clear."""
    scheme, _, rest = place.partition("://")
    host = rest.rpartition(":")[0].strip("[]")
    if scheme in ("tls", "wss", "inproc") or host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


class Actor:
    """A keeper as Dask's worker holds it, with the threads and the folder of that worker."""

    def __init__(self) -> None:
        from distributed import get_worker

        worker = get_worker()
        self._keeper = Keeper(worker.state.nthreads, Path(worker.local_directory))

    def called(self, call: Call) -> Answer:
        """Call the keeper: one argument is packed, and not each of them."""
        answer: Answer = getattr(self._keeper, call.method)(*call.arguments)
        return answer


class DaskPool:
    """Workers, and keepers that were started on them as actors of Dask's; a keeper has a name that is used once.

    A worker is lost when its connection closes, or the scheduler has dropped it. It is held to be lost when it shows no
    sign of life for ``time_limit`` seconds, or when it alone has not answered so much longer than all others did.

    ``time_limit``: seconds.
    """

    def __init__(self, client: Any, *, time_limit: float = 300.0) -> None:
        self.client: Any = check_client(client)
        self.time_limit = number("time_limit", time_limit, above=0.0)
        self._actors: dict[str, tuple[str, Any]] = {}  # of each keeper its worker, and Dask's hold on it
        self._silent: set[str] = set()  # workers that were held to be lost and are not gone
        self._slow: dict[str, float] = {}  # workers that live and did not answer, and until when to leave them alone
        self._proxied: set[str] = set()  # workers that this process does not reach but through the scheduler

    def workers(self) -> list[Worker]:
        """Return the workers that are alive now, in an order that does not change.

        Raises ClusterError if nobody can say: there is no scheduler any more.
        """
        alive: list[Worker] = self._sync(self._alive())
        return alive

    def start(self, worker: str) -> str:
        """Start a `Keeper` on a worker, and return its name; raises Lost if the worker is gone."""
        keeper = f"sottovoce-{uuid4().hex}"
        future = self.client.submit(
            Actor, key=keeper, actor=True, workers=[worker], allow_other_workers=False, pure=False, retries=0
        )
        self._actors[keeper] = (worker, future)
        try:
            self._sync(self._started(worker, future))
        except BaseException:
            self.forget(keeper)
            raise
        return keeper

    def call(self, calls: Mapping[str, Call]) -> dict[str, Answer | Lost]:
        """Call several keepers at once; return what each answered, or that it is lost.

        A call may be delivered twice, and a keeper that is said to be lost may still be at work: whoever calls numbers
        what must be done once, and never calls a lost one again.
        """
        return self._sync(self._called(calls)) if calls else {}

    def forget(self, keeper: str) -> None:
        """Let go of a keeper; Dask drops it, and its rows, as soon as it can."""
        known = self._actors.pop(keeper, None)
        if known is not None and self.client.status == "running":
            known[1].release()

    def _sync(self, coroutine: Any) -> Any:
        if self.client.status not in ("running", "connecting"):
            coroutine.close()
            raise self._no_scheduler()
        return self.client.sync(lambda: coroutine)

    def _no_scheduler(self, error: BaseException | None = None) -> ClusterError:
        address = getattr(self.client.scheduler, "address", "")
        told = f" ({type(error).__name__})" if error else ""
        return ClusterError(
            f"the scheduler {address} is gone or cannot be reached{told}. Nothing was "
            "released twice; what was charged stays charged. Start a scheduler and workers, make a new DaskTable, "
            "and fit again."
        )

    # --- on the client's event loop

    async def _known(self) -> dict[str, Any]:
        if self.client.status != "running" and self.client.status != "connecting":
            raise self._no_scheduler()
        try:
            identity = await asyncio.wait_for(self.client.scheduler.identity(n_workers=-1), max(self.time_limit, _SOON))
        except (OSError, TimeoutError) as error:
            raise self._no_scheduler(error) from None
        workers: dict[str, Any] = identity["workers"]
        return workers

    async def _alive(self) -> list[Worker]:
        known = await self._known()
        self._silent &= set(known)
        for name in list(self._silent):
            if await self._ping(name, _SOON):
                self._silent.discard(name)
        now = time.monotonic()
        there = [
            Worker(name, int(facts["nthreads"]), int(facts["memory_limit"] or 0))
            for name, facts in sorted(known.items())
            if name not in self._silent
        ]
        return [worker for worker in there if self._slow.get(worker.name, now) <= now] or there

    async def _ping(self, worker: str, timeout: float) -> bool:
        try:
            await asyncio.wait_for(self._rpc(worker).identity(), timeout)
        except (OSError, TimeoutError):
            return False
        return True

    def _rpc(self, worker: str) -> Any:
        if worker in self._proxied:
            from distributed.actor import ProxyRPC

            return ProxyRPC(self.client.scheduler, worker)  # type: ignore[no-untyped-call]
        return self.client.rpc(worker)

    async def _started(self, worker: str, future: Any) -> None:
        begun = time.monotonic()
        while not future.done():
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(future._state.wait()), _LOOK)
            if not future.done() and worker not in await self._known():
                raise Lost("it is gone")
            if not future.done() and time.monotonic() - begun > self.time_limit:
                self._silent.add(worker)
                raise Lost(f"it did not begin to work within {self.time_limit:g} seconds")
        if future.status == "error":
            error = await future._exception()
            if isinstance(error, ImportError):
                raise ClusterError(
                    f"worker {worker} cannot import what it needs: {error}. Install the same sottovoce[cluster] there "
                    "as here."
                ) from None
            raise Lost(f"{type(error).__name__}: {error}")
        if future.status != "finished":
            raise Lost(f"its keeper was {future.status}")
        if not await self._ping(worker, _SOON) and self.client.status == "running":
            self._proxied.add(worker)
            if not await self._ping(worker, _SOON):
                self._proxied.discard(worker)
                raise Lost("it cannot be reached, neither from here nor from the scheduler")

    async def _called(self, calls: Mapping[str, Call]) -> dict[str, Answer | Lost]:
        begun = time.monotonic()
        tasks = {asyncio.ensure_future(self._one(keeper, call)): keeper for keeper, call in calls.items()}
        seen = dict.fromkeys(calls, begun)  # the last sign of life of each
        answers: dict[str, Answer | Lost] = {}
        slowest: float | None = None  # of those that have answered
        waiting = set(tasks)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, timeout=_LOOK, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    answers[tasks[task]] = task.result()
                    slowest = time.monotonic() - begun
                if waiting and not done:
                    late = {task: tasks[task] for task in waiting}
                    for task, why in (await self._given_up(late, seen, begun, slowest)).items():
                        task.cancel()
                        waiting.discard(task)
                        answers[tasks[task]] = Lost(why)
        finally:
            for task in waiting:
                task.cancel()
        return answers

    async def _given_up(
        self, late: Mapping[Any, str], seen: dict[str, float], begun: float, slowest: float | None
    ) -> dict[Any, str]:
        known = await self._known()
        workers = {keeper: self._actors[keeper][0] for keeper in late.values()}
        there = [keeper for keeper, worker in workers.items() if worker in known]
        lives = await asyncio.gather(*(self._ping(workers[keeper], min(_SOON, self.time_limit)) for keeper in there))
        now = time.monotonic()
        seen.update({keeper: now for keeper, alive in zip(there, lives, strict=True) if alive})
        why = {}
        for task, keeper in late.items():
            if keeper not in there:
                why[task] = "it is gone"
                continue
            if now - seen[keeper] > self.time_limit:
                why[task] = f"it has shown no sign of life for {self.time_limit:g} seconds"
                self._silent.add(workers[keeper])
            elif slowest is not None and now - begun > self.time_limit + (1.0 + _SLOWER) * slowest:
                why[task] = f"it took {now - begun:.0f} seconds for what took the others {slowest:.1f} at most"
                self._slow[workers[keeper]] = now + self.time_limit
        return why

    async def _one(self, keeper: str, call: Call) -> Answer | Lost:
        """Call a keeper; once more if the connection broke and the worker is there."""
        from distributed.protocol.serialize import Serialize

        worker = self._actors[keeper][0]
        arguments = [Serialize(call)]  # type: ignore[no-untyped-call]
        for again in (False, True):
            try:
                result = await self._rpc(worker).actor_execute(
                    function="called", actor=keeper, args=arguments, kwargs={}
                )
            except OSError as error:
                if again or worker not in await self._known():
                    return Lost(f"the connection broke ({type(error).__name__})")
                continue
            except KeyError:
                return Lost("it does not know its keeper any more")
            if result["status"] == "OK":
                answer: Answer = result["result"]
                return answer
            raised = result["exception"]
            return Lost(f"{type(raised).__name__}: {raised}")
        raise AssertionError
