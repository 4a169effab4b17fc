"""Products and sums over four dense rows at a time, written as vector instructions.

What a compiler makes of the plain loops is two to three times slower here: it does the end of a row, up to 15 entries,
one by one, and it writes the running sums to memory after each row. These functions take 64 bytes at a time, four rows
at once; the end of a row is one more whole vector, the last 64 bytes of the row, which overlaps the one before. LLVM
turns the vectors into what the processor has.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

ROWS = 4
VECTOR_BYTES = 64
MOST_TICKS = 2**24  # of one entry of one row's term: 64 of them fit in 32 bits, and float32 holds it exactly

_REORDER = ("reassoc", "contract", "nsz", "arcp")  # NaN and infinity keep their meaning
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


def _integer(value: int) -> Any:
    return ir.Constant(_INT64, value)


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    """Return a vector whose lanes are all ``value``."""
    vector = ir.VectorType(value.type, lanes)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT32, lanes), [0] * lanes))


def _place(builder: Any, start: Any, offset: Any, vector: Any) -> Any:
    return builder.bitcast(builder.gep(start, [offset]), vector.as_pointer())


def _load(builder: Any, start: Any, offset: Any, vector: Any, align: int) -> Any:
    loaded = builder.load(_place(builder, start, offset, vector))
    loaded.align = align  # numpy promises the alignment of an entry, not that of a vector
    return loaded


class _Rows:
    """Four rows of a C-contiguous matrix inside a function that is being generated."""

    def __init__(self, context: Any, builder: Any, kind: Any, matrix: Any, places: Any) -> None:
        self.builder = builder
        self.entry = context.get_data_type(kind.dtype)
        self.align = kind.dtype.bitwidth // 8
        self.lanes = VECTOR_BYTES // self.align
        self.vector = ir.VectorType(self.entry, self.lanes)
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)
        array = context.make_array(kind)(context, builder, matrix)
        self.width = cgutils.unpack_tuple(builder, array.shape)[1]
        self.starts = [builder.gep(array.data, [builder.mul(place, self.width)]) for place in places]
        self.whole = builder.udiv(self.width, _integer(self.lanes))
        self.rest = builder.urem(self.width, _integer(self.lanes))

    def load(self, row: int, offset: Any, read: Any = None) -> Any:
        """Return a vector of a row; the lanes that are not to be ``read`` are 0, and nothing there is touched."""
        if read is None:
            return _load(self.builder, self.starts[row], offset, self.vector, self.align)
        place = _place(self.builder, self.starts[row], offset, self.vector)
        kind = ir.FunctionType(self.vector, [place.type, _INT32, read.type, self.vector])
        name = f"llvm.masked.load.v{self.lanes}f{8 * self.align}.p0"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [place, ir.Constant(_INT32, self.align), read, self.zero])

    def uncounted(self) -> Any:
        """Return which lanes of the last, overlapping vector no vector before it has counted."""
        lane = ir.Constant(ir.VectorType(_INT64, self.lanes), list(range(self.lanes)))
        counted = _splat(self.builder, self.builder.sub(_integer(self.lanes), self.rest), self.lanes)
        return self.builder.icmp_unsigned(">=", lane, counted)

    def each_vector(self, body: Any) -> None:
        """Generate ``body(offset, number, is_last)`` for the whole vectors and for the overlapping last one."""
        with cgutils.for_range(self.builder, self.whole) as loop:
            body(self.builder.mul(loop.index, _integer(self.lanes)), loop.index, False)
        with self.builder.if_then(self.builder.icmp_unsigned("!=", self.rest, _integer(0))):
            body(self.builder.sub(self.width, _integer(self.lanes)), self.whole, True)


def _within(builder: Any, value: Any, least: Any, most: Any) -> Any:
    """Return a number or vector cut to its bounds; the comparisons are ordered, so that NaN becomes a bound too."""
    below = builder.select(builder.fcmp_ordered("<", value, most), value, most)
    return builder.select(builder.fcmp_ordered(">", below, least), below, least)


@intrinsic
def cut(typingctx, x, most):  # type: ignore[no-untyped-def]
    """Return ``x`` within +-``most``, in the precision of ``x``, without a branch; total: NaN becomes a bound."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        limit = context.cast(builder, args[1], signature.args[1], signature.args[0])
        return _within(builder, args[0], builder.fneg(limit), limit)

    return x(x, most), generate


@intrinsic
def dot_four_rows(typingctx, X, i0, i1, i2, i3, w, out, k):  # type: ignore[no-untyped-def]
    """Write the products of rows i0 to i3 with ``w`` (of the dtype of ``X``) to ``out[k:k+4]``, in double precision.

    ``X`` is C-contiguous and at least one vector wide.
    """

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        rows = _Rows(context, builder, signature.args[0], args[0], args[1:5])
        weights = context.make_array(signature.args[5])(context, builder, args[5])
        target = context.make_array(signature.args[6])(context, builder, args[6])
        sums = [cgutils.alloca_once_value(builder, rows.zero) for _ in range(ROWS)]

        def body(offset, number, is_last):  # type: ignore[no-untyped-def]
            factor = _load(builder, weights.data, offset, rows.vector, rows.align)
            if is_last:  # lanes that the vector before has counted get the factor 0
                factor = builder.select(rows.uncounted(), factor, rows.zero)
            for row in range(ROWS):
                product = builder.fmul(rows.load(row, offset), factor, flags=_REORDER)
                builder.store(builder.fadd(builder.load(sums[row]), product, flags=_REORDER), sums[row])

        rows.each_vector(body)
        reduce = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(rows.entry, [rows.entry, rows.vector]),
            f"llvm.vector.reduce.fadd.v{rows.lanes}f{8 * rows.align}",
        )
        for row in range(ROWS):
            start = ir.Constant(rows.entry, -0.0)
            total = builder.call(reduce, [start, builder.load(sums[row])], fastmath=_REORDER)
            if rows.align == 4:
                total = builder.fpext(total, ir.DoubleType())
            builder.store(total, builder.gep(target.data, [builder.add(args[7], _integer(row))]))
        return context.get_dummy_value()

    return types.void(X, i0, i1, i2, i3, w, out, k), generate


@intrinsic
def add_four_rows(typingctx, X, i0, i1, i2, i3, factor, k, buffer):  # type: ignore[no-untyped-def]
    """Add ``factor[k + r]`` times row i_r, cut to +-2^24 and to whole numbers, to the 32-bit ``buffer``, r = 0 to 3.

    ``X`` is C-contiguous. The whole vectors of a row come first in the buffer; the last,
    overlapping vector has its own place after them (adding it where it belongs would wait for the stores before it).
    """

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        rows = _Rows(context, builder, signature.args[0], args[0], args[1:5])
        factors = context.make_array(signature.args[5])(context, builder, args[5])
        target = context.make_array(signature.args[7])(context, builder, args[7])
        ticks = ir.VectorType(_INT32, rows.lanes)
        each = [
            _splat(builder, builder.load(builder.gep(factors.data, [builder.add(args[6], _integer(row))])), rows.lanes)
            for row in range(ROWS)
        ]

        most, least = (ir.Constant(rows.vector, [sign * float(MOST_TICKS)] * rows.lanes) for sign in (1.0, -1.0))

        def body(offset, number, is_last, read=None):  # type: ignore[no-untyped-def]
            place = builder.mul(number, _integer(rows.lanes))
            total = _load(builder, target.data, place, ticks, 4)
            for row in range(ROWS):
                term = builder.fmul(rows.load(row, offset, read), each[row])
                total = builder.add(total, builder.fptosi(_within(builder, term, least, most), ticks))
            builder.store(total, _place(builder, target.data, place, ticks)).align = 4

        with builder.if_else(builder.icmp_unsigned("==", rows.whole, _integer(0))) as (narrow, wide):
            with narrow:  # the last vector alone, which begins before the row: nothing there is read
                body(builder.sub(rows.width, _integer(rows.lanes)), rows.whole, True, rows.uncounted())  # type: ignore[no-untyped-call]
            with wide:
                rows.each_vector(body)
        return context.get_dummy_value()

    return types.void(X, i0, i1, i2, i3, factor, k, buffer), generate
