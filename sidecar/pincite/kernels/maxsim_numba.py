"""The compiled half of ``maxsim_codes``: numba, and a micro-kernel in LLVM's own vectors.

Written in LLVM vectors because numba's loops leave the accumulators in memory. LLVM cuts a vector of 16 floats
to what the processor has (AVX-512, AVX2, NEON), so this is one kernel for all of them.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

#: Tokens decoded at once; 128 dimensions of 32 tokens are 16 KB.
TILE = 32
#: Query tokens a step: 4 × 32 sums are eight AVX-512 registers, enough to hide the latency of an addition.
QUERIES = 4
_LANES = 16
_CENTROID_BYTES = 4


@intrinsic  # type: ignore[untyped-decorator]
def _products(typingctx: Any, tile: Any, query: Any, group: Any, dim: Any, out: Any) -> Any:  # noqa: PLR0917  # numba's form
    """out[q, t] = sum over d of query[group, d, q] * tile[d, t], for 4 query tokens and 32 document tokens."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        float_, long = ir.FloatType(), ir.IntType(64)
        vector = ir.VectorType(float_, _LANES)
        pointer = ir.PointerType(float_)
        tile_data, query_data, out_data = (
            builder.bitcast(
                cgutils.create_struct_proxy(signature.args[i])(context, builder, args[i]).data, pointer
            )
            for i in (0, 1, 4)
        )
        n = args[3]
        base = builder.mul(builder.mul(args[2], n), long(QUERIES))
        muladd = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector, vector, vector]), f"llvm.fmuladd.v{_LANES}f32"
        )
        n_parts = TILE // _LANES
        before = builder.block
        loop, after = builder.append_basic_block("products"), builder.append_basic_block("products.end")
        zero = ir.Constant(vector, [0.0] * _LANES)
        builder.branch(loop)
        builder.position_at_end(loop)
        d = builder.phi(long)
        d.add_incoming(long(0), before)
        sums = [builder.phi(vector) for _ in range(QUERIES * n_parts)]
        for phi in sums:
            phi.add_incoming(zero, before)
        lanes = []
        for part in range(n_parts):
            place = builder.gep(tile_data, [builder.add(builder.mul(d, long(TILE)), long(part * _LANES))])
            lanes.append(builder.load(builder.bitcast(place, ir.PointerType(vector)), align=4))
        undefined = ir.Constant(vector, ir.Undefined)
        first = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
        results = []
        for q in range(QUERIES):
            place = builder.gep(
                query_data, [builder.add(base, builder.add(builder.mul(d, long(QUERIES)), long(q)))]
            )
            one = builder.insert_element(undefined, builder.load(place), ir.IntType(32)(0))
            spread = builder.shuffle_vector(one, undefined, first)
            results += [
                builder.call(muladd, [lanes[part], spread, sums[q * n_parts + part]]) for part in range(n_parts)
            ]
        following = builder.add(d, long(1))
        d.add_incoming(following, loop)
        for phi, result in zip(sums, results, strict=True):
            phi.add_incoming(result, loop)
        builder.cbranch(builder.icmp_signed("<", following, n), loop, after)
        builder.position_at_end(after)
        for i, result in enumerate(results):
            place = builder.gep(out_data, [long(i * _LANES)])
            builder.store(result, builder.bitcast(place, ir.PointerType(vector)), align=4)
        return context.get_dummy_value()

    return types.void(tile, query, types.int64, types.int64, out), codegen


def _kernel(  # noqa: PLR0912, PLR0917  # one compiled loop; numba calls by position
    query: Any,
    n_query: int,
    rows: Any,
    starts: Any,
    lengths: Any,
    centroids: Any,
    table: Any,
    out: Any,
    first: int,
    last: int,
) -> int:
    """Scores of documents ``first`` to ``last``; 1 when a row names a centroid that there is not."""
    n_groups, dim = query.shape[0], query.shape[1]
    per_byte = table.shape[1]
    n_bytes = dim // per_byte
    tile = np.zeros((dim, TILE), dtype=np.float32)
    one = np.empty(dim, dtype=np.float32)
    inverse = np.zeros(TILE, dtype=np.float32)
    best = np.empty((n_groups * QUERIES, TILE), dtype=np.float32)
    products = np.empty((QUERIES, TILE), dtype=np.float32)
    for document in range(first, last):
        length = lengths[document]
        if length == 0:
            continue
        best[:] = np.float32(-np.inf)
        for block in range(0, length, TILE):
            n = min(TILE, length - block)
            for t in range(n):
                row = starts[document] + block + t
                number = np.int64(rows[row, 0]) | np.int64(rows[row, 1]) << 8
                number |= np.int64(rows[row, 2]) << 16 | np.int64(rows[row, 3]) << 24
                if number >= centroids.shape[0]:
                    return 1
                square = np.float32(0.0)
                for b in range(n_bytes):
                    byte = rows[row, _CENTROID_BYTES + b]
                    for k in range(per_byte):
                        one[b * per_byte + k] = table[byte, k]
                for d in range(dim):
                    one[d] += centroids[number, d]
                    square += one[d] * one[d]
                inverse[t] = np.float32(1.0) / np.sqrt(square) if square > 0 else np.float32(0.0)
                for d in range(dim):
                    tile[d, t] = one[d]
            for group in range(n_groups):
                _products(tile, query, group, dim, products)  # type: ignore[call-arg]
                for q in range(QUERIES):
                    place = group * QUERIES + q
                    for t in range(n):
                        best[place, t] = max(best[place, t], products[q, t] * inverse[t])
        total = np.float32(0.0)
        for q in range(n_query):
            highest = np.float32(-np.inf)
            for t in range(min(TILE, length)):
                highest = max(highest, best[q, t])
            total += highest
        out[document] = total
    return 0


_FLAGS: dict[str, Any] = {
    "nogil": True,
    "boundscheck": False,
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},
}
try:
    # Compiled once a machine: numba keeps it beside this file or in the user's cache folder.
    kernel = numba.njit(cache=True, **_FLAGS)(_kernel)
except RuntimeError:
    # Neither can be written: compiled once a process.
    kernel = numba.njit(**_FLAGS)(_kernel)
