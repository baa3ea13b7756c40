"""Compiled loops for gradients in a CPU's memory: one pass over the data where torch operations would make several.

Each does what the torch operations beside its caller do, element by element and in the same order. Sums are taken in
double precision over blocks of fixed length, so that they do not depend on the number of threads. A kernel works on
its blocks from `start` to `stop`, as `fused.in_pieces` hands them out, and releases the GIL.

Compiled when first called, a second for each kernel, then kept on disk. Loops run over slices from 0, for Numba does
not vectorize where an index could be negative. Zero divisors are excluded by hand (`error_model`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

#: Elements worked on together: they stay in the processor's first cache, and the next ones are fetched meanwhile.
BLOCK = 1024

#: The largest number of single precision.
LARGEST = np.finfo(np.float32).max

#: Of Philox, as in `random`.
ROUNDS = 7

_LOW, _WORD, _TOP = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(56)
#: Multiplying eight bytes of 0 or 1 by this gathers them as the bits of the topmost byte, the first one lowest.
_GATHER_BITS = np.uint64(0x0102040810204080)


def _compiled(**more: Any) -> Callable[[Callable[..., Any]], Any]:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"} | more

    def compile_it(function: Callable[..., Any]) -> Any:
        try:
            return njit(function, cache=True, **options)
        except RuntimeError:  # no folder for the cache can be written to
            return njit(function, **options)

    return compile_it


# These two sums alone may be reordered, so that the processor adds several lanes at once.
@_compiled(fastmath={"reassoc"})
def _sum_abs(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(values.size):
        total += abs(np.float64(values[i]))
    return total


@_compiled(fastmath={"reassoc"})
def _sum_squares(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(values.size):
        value = np.float64(values[i])
        total += value * value
    return total


@_compiled()
def _count_beyond(values, largest):  # type: ignore[no-untyped-def]
    beyond = np.int32(0)  # as wide as a value: the processor counts in all lanes
    for i in range(values.size):
        beyond += np.int32(not (abs(values[i]) <= largest))
    return beyond


@_compiled()
def count_beyond(values, largest, found, start, stop):  # type: ignore[no-untyped-def]
    """Per block, how many values are of larger magnitude, or not a number."""
    for block in range(start, stop):
        found[block] = _count_beyond(values[block * BLOCK : (block + 1) * BLOCK], largest)


@_compiled()
def _gather_flags(flags, elements, packed):  # type: ignore[no-untyped-def]
    for i in range(elements, 8 * packed.size):
        flags[i] = 0
    words = flags.view(np.uint64)
    for byte in range(packed.size):
        packed[byte] = (words[byte] * _GATHER_BITS) >> _TOP


@_compiled()
def pack_signs(values, phase, packed, beyond, start, stop):  # type: ignore[no-untyped-def]
    """Bit i mod 8 of byte i // 8 is 1 where value i is above 0, or is 0 and i + `phase` is even.

    `beyond` has, per block, how many values are no finite numbers.
    """
    flags = np.zeros(BLOCK, dtype=np.uint8)
    for block in range(start, stop):
        part = values[block * BLOCK : (block + 1) * BLOCK]
        beyond[block] = _count_beyond(part, LARGEST)
        for i in range(part.size):
            flags[i] = (part[i] > 0) | ((part[i] == 0) & (((i + phase) & 1) == 0))
        _gather_flags(flags, part.size, packed[block * (BLOCK // 8) : (block + 1) * (BLOCK // 8)])


@_compiled()
def unpack_signs(packed, low, high, values, start, stop):  # type: ignore[no-untyped-def]
    """`high` where bit i mod 8 of byte i // 8 is 1, else `low`."""
    for block in range(start, stop):
        part = values[block * BLOCK : (block + 1) * BLOCK]
        some = packed[block * (BLOCK // 8) : (block + 1) * (BLOCK // 8)]
        for byte in range(part.size // 8):
            bits = np.int32(some[byte])  # as wide as a value: the processor shifts in all lanes
            for i in range(8):
                part[8 * byte + i] = high if (bits >> np.int32(i)) & np.int32(1) else low
        for i in range(part.size // 8 * 8, part.size):
            part[i] = high if (some[i // 8] >> (i % 8)) & 1 else low


@_compiled()
def ef_sign(gradient, corrected, scale, packed, sums, start, stop):  # type: ignore[no-untyped-def]
    """p ← g + (p − scale·sign(p)); the signs of the new p, 1 where it is at least 0; per block, the sum of abs(p).

    A block whose gradient is not finite is left as it is, and its sum is not a number.
    """
    flags = np.zeros(BLOCK, dtype=np.uint8)
    for block in range(start, stop):
        g, p = gradient[block * BLOCK : (block + 1) * BLOCK], corrected[block * BLOCK : (block + 1) * BLOCK]
        if _count_beyond(g, LARGEST):
            sums[block] = np.nan
            continue
        for i in range(p.size):
            old = p[i]
            p[i] = g[i] + (old - (scale if old >= 0 else -scale))
            flags[i] = p[i] >= 0
        sums[block] = _sum_abs(p)
        _gather_flags(flags, p.size, packed[block * (BLOCK // 8) : (block + 1) * (BLOCK // 8)])


@_compiled()
def _philox(counter, stream):  # type: ignore[no-untyped-def]
    c0, c1, c2, c3 = counter & _LOW, stream[2], stream[3], np.uint64(0)
    k0, k1 = stream[0], stream[1]
    for _ in range(ROUNDS):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (b >> _WORD) ^ c1 ^ k0, b & _LOW, (a >> _WORD) ^ c3 ^ k1, a & _LOW
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & _LOW, (k1 + np.uint64(0xBB67AE85)) & _LOW
    return c0, c1, c2, c3


@_compiled()
def _fill_random(out, first, count, stream):  # type: ignore[no-untyped-def]
    """Fill `out` with the random numbers of elements from 4·⌊first/4⌋ on; returns where that of `first` is."""
    base = np.uint64(first // 4)
    for i in range((first + count + 3) // 4 - first // 4):
        c0, c1, c2, c3 = _philox(base + np.uint64(i), stream)
        out[4 * i] = np.float32(np.int32(c0 >> np.uint64(8))) * np.float32(2.0**-24)
        out[4 * i + 1] = np.float32(np.int32(c1 >> np.uint64(8))) * np.float32(2.0**-24)
        out[4 * i + 2] = np.float32(np.int32(c2 >> np.uint64(8))) * np.float32(2.0**-24)
        out[4 * i + 3] = np.float32(np.int32(c3 >> np.uint64(8))) * np.float32(2.0**-24)
    return first % 4


@_compiled()
def random_words(stream, out, start, stop):  # type: ignore[no-untyped-def]
    """The words of counters from `start` to `stop`, four for each, one after the other."""
    for i in range(stop - start):
        out[4 * i], out[4 * i + 1], out[4 * i + 2], out[4 * i + 3] = _philox(np.uint64(start + i), stream)


@_compiled()
def random_numbers(stream, out, start, stop):  # type: ignore[no-untyped-def]
    """The random numbers of all elements of `out`, by blocks."""
    scratch = np.empty(BLOCK + 8, dtype=np.float32)
    for block in range(start, stop):
        part = out[block * BLOCK : (block + 1) * BLOCK]
        _fill_random(scratch, block * BLOCK, part.size, stream)
        part[:] = scratch[: part.size]


@_compiled()
def _pack_fields(fields, bits, packed):  # type: ignore[no-untyped-def]
    """Fields of `bits` bits one after the other, the lowest bits first; what is left of the last byte is 0."""
    groups = fields.size // 8 if bits <= 8 else 0
    for group in range(groups):  # eight fields are a whole number of bytes and fit into one word
        held = np.uint64(0)
        for i in range(8):
            held |= np.uint64(fields[8 * group + i]) << np.uint64(bits * i)
        for byte in range(bits):
            packed[bits * group + byte] = (held >> np.uint64(8 * byte)) & np.uint64(255)
    held, used, byte = np.uint64(0), 0, groups * bits
    for i in range(8 * groups, fields.size):
        held |= np.uint64(fields[i]) << np.uint64(used)
        used += bits
        while used >= 8:
            packed[byte] = held & np.uint64(255)
            held >>= np.uint64(8)
            used -= 8
            byte += 1
    if used:
        packed[byte] = held & np.uint64(255)


@_compiled()
def _unpack_fields(packed, bits, fields):  # type: ignore[no-untyped-def]
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    groups = fields.size // 8 if bits <= 8 else 0
    for group in range(groups):
        held = np.uint64(0)
        for byte in range(bits):
            held |= np.uint64(packed[bits * group + byte]) << np.uint64(8 * byte)
        for i in range(8):
            fields[8 * group + i] = (held >> np.uint64(bits * i)) & mask
    held, used, byte = np.uint64(0), 0, groups * bits
    for i in range(8 * groups, fields.size):
        while used < bits:
            held |= np.uint64(packed[byte]) << np.uint64(used)
            used += 8
            byte += 1
        fields[i] = held & mask
        held >>= np.uint64(bits)
        used -= bits


@_compiled()
def qsgd_encode(values, levels, bits, bucket, stream, norms, packed, start, stop):  # type: ignore[no-untyped-def]
    """Per bucket the Euclidean norm, and sign and randomly rounded level of each value, packed."""
    numbers, fields = np.empty(bucket + 8, dtype=np.float32), np.empty(bucket, dtype=np.int32)
    row = (bucket * bits + 7) // 8
    most = np.float32(levels)
    for number in range(start, stop):
        part = values[number * bucket : (number + 1) * bucket]
        norm = np.float32(np.sqrt(_sum_squares(part)))
        norms[number] = norm
        divisor = norm if norm > 0 else np.float32(1)
        offset = _fill_random(numbers, number * bucket, part.size, stream)
        some = numbers[offset : offset + part.size]
        for i in range(part.size):
            level = np.int32(abs(part[i]) / divisor * most + some[i])
            fields[i] = (min(level, np.int32(levels)) << 1) | np.int32(part[i] < 0)
        _pack_fields(fields[: part.size], bits, packed[number * row : (number + 1) * row])


@_compiled()
def qsgd_decode(norms, packed, levels, bits, bucket, values, start, stop):  # type: ignore[no-untyped-def]
    """norm ÷ levels · level, with its sign."""
    fields = np.empty(bucket, dtype=np.int32)
    row = (bucket * bits + 7) // 8
    for number in range(start, stop):
        part = values[number * bucket : (number + 1) * bucket]
        _unpack_fields(packed[number * row : (number + 1) * row], bits, fields[: part.size])
        unit = norms[number] / np.float32(levels)
        for i in range(part.size):
            value = unit * np.float32(fields[i] >> 1)
            part[i] = -value if fields[i] & 1 else value


@_compiled()
def pack_fields(fields, bits, packed, start, stop):  # type: ignore[no-untyped-def]
    """Fields of `bits` bits each, by blocks; a block fills whole bytes."""
    row = BLOCK // 8 * bits
    for block in range(start, stop):
        part = fields[block * BLOCK : (block + 1) * BLOCK]
        _pack_fields(part, bits, packed[block * row : (block + 1) * row])


@_compiled()
def unpack_fields(packed, bits, fields, start, stop):  # type: ignore[no-untyped-def]
    """The fields that `pack_fields` packed."""
    row = BLOCK // 8 * bits
    for block in range(start, stop):
        part = fields[block * BLOCK : (block + 1) * BLOCK]
        _unpack_fields(packed[block * row : (block + 1) * row], bits, part)


@_compiled(fastmath={"reassoc"})
def _sums_by_sign(values):  # type: ignore[no-untyped-def]
    """Sum of the values below 0, sum of the others, number of the others."""
    low, high, above = 0.0, 0.0, 0
    for i in range(values.size):
        value = np.float64(values[i])
        low += min(value, 0.0)
        high += max(value, 0.0)
        above += int(value >= 0)
    return low, high, above


@_compiled()
def one_bit(gradient, corrected, columns, means, flags, start, stop):  # type: ignore[no-untyped-def]
    """Row by row: p ← g + p, the means of p < 0 and of p ≥ 0, which is which, and p ← p − its mean."""
    for row in range(start, stop):
        g, p = gradient[row * columns : (row + 1) * columns], corrected[row * columns : (row + 1) * columns]
        for i in range(p.size):
            p[i] = g[i] + p[i]
        low_sum, high_sum, above = _sums_by_sign(p)
        low = np.float32(low_sum / max(1, columns - above))
        high = np.float32(high_sum / max(1, above))
        means[0, row], means[1, row] = low, high
        some = flags[row * columns : (row + 1) * columns]
        for i in range(p.size):
            some[i] = p[i] >= 0
            p[i] = p[i] - (high if p[i] >= 0 else low)


@_compiled()
def one_bit_decode(packed, means, columns, values, start, stop):  # type: ignore[no-untyped-def]
    """The mean that each bit of a row stands for."""
    for row in range(start, stop):
        low, high = means[0, row], means[1, row]
        for place in range(row * columns, (row + 1) * columns):
            values[place] = high if (packed[place >> 3] >> (place & 7)) & 1 else low


@_compiled(fastmath={"reassoc"})
def _moments(values, divisor):  # type: ignore[no-untyped-def]
    total, squares = 0.0, 0.0
    for i in range(values.size):
        value = np.float64(values[i] / divisor)
        total += value
        squares += value * value
    return total, squares


@_compiled()
def moments(values, divisor, found, start, stop):  # type: ignore[no-untyped-def]
    """Per block, the sums of value ÷ divisor and of its square."""
    for block in range(start, stop):
        found[block, 0], found[block, 1] = _moments(values[block * BLOCK : (block + 1) * BLOCK], divisor)


@_compiled()
def ternary(values, scale, stream, packed, start, stop):  # type: ignore[no-untyped-def]
    """Clipped at the scale; ±1 with the probability magnitude ÷ scale, else 0; sent as 0, 1, 2 in two bits."""
    numbers, fields = np.empty(BLOCK + 8, dtype=np.float32), np.empty(BLOCK, dtype=np.uint8)
    divisor = scale if scale > 0 else np.float32(1)
    for block in range(start, stop):
        part = values[block * BLOCK : (block + 1) * BLOCK]
        _fill_random(numbers, block * BLOCK, part.size, stream)
        for i in range(part.size):
            chosen = numbers[i] < min(abs(part[i]), scale) / divisor
            fields[i] = 1 + (chosen & (part[i] > 0)) - (chosen & (part[i] < 0))
        _pack_fields(fields[: part.size], 2, packed[block * (BLOCK // 4) : (block + 1) * (BLOCK // 4)])


@_compiled()
def ternary_decode(packed, scale, values, start, stop):  # type: ignore[no-untyped-def]
    """−scale, 0 or scale."""
    for block in range(start, stop):
        part = values[block * BLOCK : (block + 1) * BLOCK]
        some = packed[block * (BLOCK // 4) : (block + 1) * (BLOCK // 4)]
        for i in range(part.size):
            part[i] = np.float32(np.int32((some[i // 4] >> (2 * (i % 4))) & 3) - 1) * scale


@_compiled()
def count_at_least(values, threshold, found, start, stop):  # type: ignore[no-untyped-def]
    """Per block, how many magnitudes reach the threshold."""
    for block in range(start, stop):
        part = values[block * BLOCK : (block + 1) * BLOCK]
        reached = np.int32(0)
        for i in range(part.size):
            reached += np.int32(abs(part[i]) >= threshold)
        found[block] = reached


@_compiled()
def places_at_least(values, threshold, before, places, start, stop):  # type: ignore[no-untyped-def]
    """The places of these, from `before[block]` on for each block."""
    for block in range(start, stop):
        part = values[block * BLOCK : (block + 1) * BLOCK]
        at = before[block]
        for i in range(part.size):
            if abs(part[i]) >= threshold:
                places[at] = block * BLOCK + i
                at += 1
