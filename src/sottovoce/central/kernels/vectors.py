"""Products and sums over dense rows, written as vector instructions.

What a compiler makes of the plain loops is two to three times slower here: it does the end of a row, up to 15 entries,
one by one, and it writes the running sums to memory after each row. These functions take 64 bytes at a time, of four
rows at once or of four places in a row; the end of a row is one more whole vector, the last 64 bytes of the row, which
overlaps the one before. LLVM turns the vectors into what the processor has.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sottovoce.central.kernels.calls import MOST_TICKS

ROWS = 4
VECTOR_BYTES = 64

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


def _sums(builder: Any, vectors: list[Any]) -> Any:
    """Return the sums of each of four vectors, as one: halves are added to halves, two vectors at once if there are."""
    lanes = vectors[0].type.count
    while lanes > 1:
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True)) if len(vectors) > 1 else [2 * (vectors[0],)]
        begins = range(0, ROWS * lanes // len(pairs), lanes)  # of what is to become a sum
        lanes //= 2
        low = [begin + lane for begin in begins for lane in range(lanes)]
        halves = [[ir.Constant(_INT32, lane + off) for lane in low] for off in (0, lanes)]
        vectors = [
            builder.fadd(*(
                builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(_INT32, len(half)), half)) for half in halves
            )) for pair in pairs
        ]  # fmt: skip
    return vectors[0]


def _masked(builder: Any, what: str, place: Any, lanes: Any, vector: Any) -> Any:
    """Load or store the ``lanes`` of a vector, or all for None; a load has those of ``vector`` in the other ones.

    Nothing is touched at the place of the other ones.
    """
    kind, entry = vector.type, vector.type.element
    align = 4 if entry == ir.FloatType() else 8  # numpy promises the alignment of an entry, not that of a vector
    if lanes is None:
        touched = builder.load(place) if what == "load" else builder.store(vector, place)
        touched.align = align
        return touched
    args = [place, ir.Constant(_INT32, align), lanes]
    args, result = ([*args, vector], kind) if what == "load" else ([vector, *args], ir.VoidType())
    name = f"llvm.masked.{what}.v{kind.count}{entry.intrinsic_name}.p0"
    function = ir.FunctionType(result, [each.type for each in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), args)


class _Rows:
    """The rows of a C-contiguous matrix inside a function that is being generated."""

    def __init__(self, context: Any, builder: Any, kind: Any, matrix: Any) -> None:
        self.builder = builder
        self.lanes = VECTOR_BYTES * 8 // kind.dtype.bitwidth
        self.vector = ir.VectorType(context.get_data_type(kind.dtype), self.lanes)
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)
        array = context.make_array(kind)(context, builder, matrix)
        self.width = cgutils.unpack_tuple(builder, array.shape)[1]
        self.data = array.data
        self.whole = builder.udiv(self.width, _integer(self.lanes))
        self.rest = builder.urem(self.width, _integer(self.lanes))

    def start(self, place: Any) -> Any:
        return self.builder.gep(self.data, [self.builder.mul(place, self.width)])

    def load(self, start: Any, offset: Any, read: Any = None) -> Any:
        """Return a vector; of lanes that are not to be ``read``, if any are, nothing is touched, and 0 is returned."""
        return _masked(self.builder, "load", _place(self.builder, start, offset, self.vector), read, self.zero)

    def each(self, body: Any, at_once: int = 1) -> None:
        """Generate ``body(offset, vectors, lanes)`` for all columns, some vectors at once as long as there are so many.

        ``lanes`` are None, or those of the last vector that no vector before has counted.
        """
        first = _integer(0)
        for vectors in dict.fromkeys((at_once, 1)):
            end = self.builder.sub(self.whole, self.builder.urem(self.whole, _integer(vectors)))
            with cgutils.for_range_slice(self.builder, first, end, _integer(vectors)) as (number, _):
                body(self.builder.mul(number, _integer(self.lanes)), vectors, None)
            first = end
        with self.builder.if_then(self.builder.icmp_unsigned("!=", self.rest, _integer(0))):
            lane = ir.Constant(ir.VectorType(_INT64, self.lanes), list(range(self.lanes)))
            counted = _splat(self.builder, self.builder.sub(_integer(self.lanes), self.rest), self.lanes)
            uncounted = self.builder.icmp_unsigned(">=", lane, counted)
            body(self.builder.sub(self.width, _integer(self.lanes)), 1, uncounted)


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
        rows = _Rows(context, builder, signature.args[0], args[0])
        weights = context.make_array(signature.args[5])(context, builder, args[5])
        target = context.make_array(signature.args[6])(context, builder, args[6])
        starts = [rows.start(place) for place in args[1:5]]
        sums = [cgutils.alloca_once_value(builder, rows.zero) for _ in starts]

        def body(offset: Any, vectors: int, lanes: Any) -> None:
            factor = rows.load(weights.data, offset)
            factor = factor if lanes is None else builder.select(lanes, factor, rows.zero)
            for row in range(ROWS):
                product = builder.fmul(rows.load(starts[row], offset), factor, flags=_REORDER)
                builder.store(builder.fadd(builder.load(sums[row]), product, flags=_REORDER), sums[row])

        rows.each(body)
        total = _sums(builder, [builder.load(each) for each in sums])
        doubles = ir.VectorType(ir.DoubleType(), ROWS)
        total = total if total.type == doubles else builder.fpext(total, doubles)
        # at once: who loads vectors from there soon would wait for four stores of numbers
        builder.store(total, _place(builder, target.data, args[7], doubles)).align = 8
        return context.get_dummy_value()

    return types.void(X, i0, i1, i2, i3, w, out, k), generate


@intrinsic
def add_rows(typingctx, X, places, count, factor, total):  # type: ignore[no-untyped-def]
    """Add ``factor[k]`` times row ``places[k]``, cut to +-2^24 and to whole numbers, to ``total``, k < count <= 64.

    ``X`` is C-contiguous. Some columns at a time are summed in 32 bits, in registers.
    """

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        rows = _Rows(context, builder, signature.args[0], args[0])
        at, factors, target = (context.make_array(signature.args[k])(context, builder, args[k]) for k in (1, 3, 4))
        ticks, words = (ir.VectorType(kind, rows.lanes) for kind in (_INT32, _INT64))
        none = ir.Constant(words, [0] * rows.lanes)
        most, least = (ir.Constant(rows.vector, [sign * float(MOST_TICKS)] * rows.lanes) for sign in (1.0, -1.0))

        def add(offset: Any, vectors: int, lanes: Any, read: Any = None) -> None:
            offsets = [builder.add(offset, _integer(k * rows.lanes)) for k in range(vectors)]
            sums = [cgutils.alloca_once_value(builder, ir.Constant(ticks, [0] * rows.lanes)) for _ in offsets]
            with cgutils.for_range(builder, args[2]) as loop:
                start = rows.start(builder.load(builder.gep(at.data, [loop.index])))
                each = _splat(builder, builder.load(builder.gep(factors.data, [loop.index])), rows.lanes)
                for kept, place in zip(sums, offsets, strict=True):
                    term = builder.fmul(rows.load(start, place, read), each)
                    whole = builder.fptosi(_within(builder, term, least, most), ticks)
                    builder.store(builder.add(builder.load(kept), whole), kept)
            for kept, place in zip(sums, offsets, strict=True):
                to = _place(builder, target.data, place, words)
                before = _masked(builder, "load", to, lanes, none)
                _masked(builder, "store", to, lanes, builder.add(before, builder.sext(builder.load(kept), words)))

        with builder.if_else(builder.icmp_unsigned("==", rows.whole, _integer(0))) as (narrow, wide):
            with narrow:  # the one vector begins before the row: nothing there is read
                rows.each(lambda offset, vectors, lanes: add(offset, vectors, lanes, lanes))
            with wide:
                rows.each(add, 4)
        return context.get_dummy_value()

    return types.void(X, places, count, factor, total), generate
