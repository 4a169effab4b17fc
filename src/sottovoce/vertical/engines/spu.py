"""SecretFlow SPU: ABY3 among three parties, CHEETAH between two; numbers are whole, modulo 2^64.

Both protocols are for parties that follow them and are curious (semi-honest). ABY3 is safe against one of its three
parties alone; CHEETAH has two, and neither learns anything. SEMI2K, which SPU has too, is not here: its default lets
one party deal the randomness of all.

With TLS every link asks for the certificate of a partner, of any partner: SPU cannot ask for a certain one. A stranger
gets no link; that a partner does not pose as another is part of what is assumed of parties that follow the protocol.

This module is for a process of its own: the library prints and may abort.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sottovoce.vertical.engines.engine import Guarded, Whole
from sottovoce.vertical.engines.programs import Program

# SPU's product of whole numbers takes 40 times longer where the left side has more rows than this
_ROWS_AT_ONCE = 7
_ZERO = "zero"


class SpuEngine(Guarded):
    """One party of an SPU session.

    ``addresses``: two or three, by rank, as partners reach them.
    ``listen``: where this party listens, if it is another address than the one its partners use.
    ``tls``: as for `sottovoce.vertical.engines.process.EngineProcess`.
    ``timeout``: seconds that a partner may take for anything.
    """

    bound: ClassVar[int] = 1 << 63

    def __init__(
        self, rank: int, addresses: Sequence[str], listen: str | None, tls: Path | None, timeout: float
    ) -> None:
        super().__init__(rank, len(addresses))
        self._addresses = [
            listen if listen is not None and place == rank else address for place, address in enumerate(addresses)
        ]
        self._tls, self._timeout = tls, timeout
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._compiled: dict[Any, tuple[bytes, list[tuple[int, ...]]]] = {}  # with the shapes of results

    def start(self) -> None:
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        import spu
        import spu.libspu as lib

        jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call,unused-ignore]
        self._jax, self._lib = jax, lib
        patience = round(1000 * self._timeout)
        desc = lib.link.Desc()
        desc.recv_timeout_ms = desc.http_timeout_ms = patience
        desc.connect_retry_interval_ms = 100
        desc.connect_retry_times = max(1, patience // 100)
        for place, address in enumerate(self._addresses):
            desc.add_party(str(place), address)
        if self._tls is not None:
            desc.enable_ssl = True
            for side in (desc.server_ssl_opts, desc.client_ssl_opts):
                side.cert.certificate_path = str(self._tls / "certificate.pem")
                side.cert.private_key_path = str(self._tls / "key.pem")
                # session certificates sign themselves: those of the partners are all that is trusted
                side.verify.verify_depth = 1
                side.verify.ca_file_path = str(self._tls / "partners.pem")
        protocol = lib.ProtocolKind.ABY3 if self.n_parties == 3 else lib.ProtocolKind.CHEETAH
        config = lib.RuntimeConfig(protocol=protocol, field=lib.FieldType.FM64)
        # without it the owner of a variable is ignored, and every process deals shares of its own
        config.experimental_enable_colocated_optimization = True
        if self.n_parties == 2:
            config.cheetah_2pc_config.enable_mul_lsb_error = False
        self._link = lib.link.create_brpc(desc, self.rank)
        self._io, self._runtime = spu.Io(self.n_parties, config), spu.Runtime(self._link, config)
        # a secret zero; what is added to it is shared once, not at every use
        for owner in (0, 1):
            self._set(f"{_ZERO} {owner}", owner, (1,), np.zeros(1, np.int64) if owner == self.rank else None)
        self._execute("sum", lambda a, b: (a + b,), [f"{_ZERO} 0", f"{_ZERO} 1"], [_ZERO])

    def exchange(self, message: bytes) -> list[bytes]:
        others = [rank for rank in range(self.n_parties) if rank != self.rank]
        # each send ends when its partner has the message: whoever leaves afterwards leaves nobody waiting
        with ThreadPoolExecutor(len(others)) as pool:
            sent = [pool.submit(self._link.send, rank, message.hex()) for rank in others]
            told = {rank: bytes.fromhex(self._link.recv(rank).decode()) for rank in others}
            for each in sent:
                each.result()
        return [message if rank == self.rank else told[rank] for rank in range(self.n_parties)]

    def _put(self, name: str, owner: int, shape: tuple[int, ...], value: Whole | None) -> None:
        self._set(name, owner, shape, value)
        self._execute("share", lambda a, zero: (a + zero,), [name, _ZERO], [name])

    def _run(self, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._execute(program, lambda *arrays: program.on(arrays, self), inputs, outputs)

    def _reveal(self, name: str) -> Whole:
        from spu.experimental.reveal_impl import reveal

        self._execute("reveal", lambda a: (reveal(a),), [name], ["opened"])
        share = self._runtime.get_var("opened")
        opened = np.asarray(self._io.reconstruct([share] * self.n_parties), dtype=np.int64)
        self._runtime.del_var("opened")
        return opened

    def _drop(self, names: Sequence[str]) -> None:
        for name in names:
            self._runtime.del_var(name)
            del self._shapes[name]

    def _end(self) -> None:
        """Do nothing: the process ends."""

    def _set(self, name: str, owner: int, shape: tuple[int, ...], value: Whole | None) -> None:
        known = np.zeros(shape, np.int64) if value is None else np.ascontiguousarray(value)
        shares = self._io.make_shares(known, self._lib.Visibility.VIS_SECRET, owner)
        self._runtime.set_var(name, shares[self.rank])
        self._shapes[name] = shape

    def _execute(self, key: Any, function: Callable[..., Any], inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Run a function of secret variables, compiled once for each shape of them."""
        import spu.utils.frontend as frontend

        shapes = tuple(self._shapes[name] for name in inputs)
        if (key, shapes) not in self._compiled:
            struct: Any = self._jax.ShapeDtypeStruct
            arrays = [struct(shape, np.int64) for shape in shapes]
            executable, _ = frontend.compile(
                frontend.Kind.JAX,
                function,
                arrays,
                {},
                [f"in{k}" for k in range(len(inputs))],
                [self._lib.Visibility.VIS_SECRET] * len(inputs),
                lambda flat: [f"out{k}" for k in range(len(flat))],
            )
            made = [each.shape for each in self._jax.eval_shape(function, *arrays)]
            self._compiled[key, shapes] = executable.code, made
        code, made = self._compiled[key, shapes]
        self._runtime.run(
            self._lib.Executable(
                name="program",
                input_names=list(inputs),
                output_names=list(outputs),
                code=code,
            )
        )
        self._shapes.update(zip(outputs, made, strict=True))

    # ------------------------------------------------------------------ what programs compute with, as jax compiles it

    def cross(self, left: Any, right: Any) -> Any:
        # fewer pieces where the narrower side is cut
        if left.shape[1] > right.shape[1]:
            return self.cross(right, left).T
        pieces = [left.T[k : k + _ROWS_AT_ONCE] @ right for k in range(0, left.shape[1], _ROWS_AT_ONCE)]
        return self._jax.numpy.concatenate(pieces) if len(pieces) > 1 else pieces[0]

    def total(self, numbers: Any) -> Any:
        return self._jax.numpy.sum(numbers)

    def clip(self, values: Sequence[Any], lows: Sequence[int], highs: Sequence[int]) -> Any:
        # all comparisons at once, in a third of the rounds of numpy.clip. A value that is neither below nor above
        # lies between low and high even where a difference has passed 2^63: the result is bounded in any case
        numpy = self._jax.numpy
        stacked = numpy.stack(values)
        low, high = (numpy.array(each, dtype=np.int64)[:, None] for each in (lows, highs))
        beyond = numpy.concatenate([stacked - low, high - stacked]) < 0
        below, above = beyond[: len(values)], beyond[len(values) :]
        return numpy.where(below, low, numpy.where(above, high, stacked))

    def largest(self, parts: Sequence[Any], noise: Sequence[Any]) -> Any:
        # neighbours meet, so that the first of equal ones wins; SPU's own argmax opens wrong places
        numpy = self._jax.numpy
        values = sum(noise, start=numpy.concatenate(parts))
        places = numpy.arange(values.shape[0], dtype=numpy.int64)
        while values.shape[0] > 1:
            even = values.shape[0] // 2 * 2
            wins = values[1:even:2] > values[0:even:2]
            values, places = (
                numpy.concatenate([numpy.where(wins, each[1:even:2], each[0:even:2]), each[even:]])
                for each in (values, places)
            )
        return places
