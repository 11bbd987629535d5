"""Numbers of any size: whole ones in 64 bits while they fit, then a double with an exponent.

A thousand events have 2^1000 trends. A number is three values at one index of three arrays: `whole` int64 and `real`
float64, which share their memory, and `scale` int32. With scale 0 it is the whole number; with scale k >= 1 it is
real * 2^(BLOCK * (k - 1)). So nothing is rounded while it fits, nothing wraps around, and nothing becomes infinite that
was not. What is scaled has a relative error of at most 2^-52 for each addition on the way to it, relative to the sum of
the magnitudes of what was added.

Where no whole number may be rounded (`EXACT`), it is propagated as limbs as well: numbers of their own, the lowest one
first, whose carries wait until a limb is full. Together they are a whole number modulo 2^(LIMB_BITS * n), which has its
sign where it is small enough. Whether it is zero, and how large, tells the number that they belong to.

A least or greatest value stands in `real`; its scale is 0 where there is none, else 1. All zeros mean nothing: no
trends, a sum of none, no least value. A whole sum of some values that is zero has the scale ZERO, so that a sum tells
by itself whether there is any.
"""

from __future__ import annotations

import math

from engine.kernels.compile.ways import apart, inlined, leaf

BLOCK = 256
"""Bits by which scales differ: two reals below 2^BLOCK have a product and a sum within the range of doubles."""

LARGE = 2.0**BLOCK
"""Reals of numbers are below it."""

_SMALL = 2.0**-BLOCK
_MOST_WHOLE = 2.0**62
_LAST = 2**63 - 1
_FITS = 2**62

LIMB_BITS = 56
_LIMB = 2**LIMB_BITS - 1
_FULL = 2**61
"""Two limbs below it, with what was carried to them, have a sum of 64 bits."""

_LOW_HALF, _LOW_FACTOR = 28, 27
"""Bits of the lower part of a limb, and of a factor of up to 2^53, so that products have 64 bits."""

ZERO = -1
"""The scale of a whole number that is zero and not nothing."""

# How two numbers become one.
ADDED = 0
LEAST = 1
GREATEST = 2
LIMB = 3
LAST_LIMB = 4


@inlined
def put_together(way, whole, real, scale, at, other_whole, other_real, other_scale, position):
    """Take a number of other arrays into the one at an index."""
    if way == ADDED:
        own_scale, its_scale = scale[at], other_scale[position]
        if own_scale > 0 and its_scale > 0:
            addend = other_real[position]
            larger = max(own_scale, its_scale)
            value = real[at] * factor_of(larger - own_scale) + addend * factor_of(larger - its_scale)
            if abs(value) < LARGE and addend != 0.0:
                real[at] = value
                scale[at] = larger
                return
        elif own_scale == its_scale:
            own, other = whole[at], other_whole[position]
            if -_FITS < own < _FITS and -_FITS < other < _FITS:
                total = own + other
                whole[at] = total
                if total == 0 and own != 0:
                    scale[at] = ZERO
                return
        elif own_scale == 0 and whole[at] == 0 and other_real[position] != 0.0:
            real[at] = other_real[position]
            scale[at] = its_scale
            return
        _add(whole, real, scale, at, other_whole[position], other_real[position], other_scale[position])
    elif way >= LIMB:
        _add_to_limb(whole, at, other_whole[position], way == LAST_LIMB)
    elif other_scale[position] != 0:
        enter_extreme(way, real, scale, at, other_real[position])


@inlined
def factor_of(n_scales):
    """By which a number is smaller, told in a scale that is so much larger; what is less than what is rounded is 0."""
    return 1.0 if n_scales == 0 else _SMALL if n_scales == 1 else _SMALL * _SMALL if n_scales == 2 else 0.0


@inlined
def enter_extreme(way, real, scale, at, value):
    """Take a value into the least or greatest one at an index."""
    if scale[at] == 0 or (way == LEAST and value < real[at]) or (way == GREATEST and value > real[at]):
        real[at] = value
        scale[at] = 1


@leaf
def add_product(whole, real, scale, at, factor, is_whole, count_whole, count_real, count_scale, position):
    """Add factor times a count, which is a number of other arrays; `is_whole`: the factor is a whole number."""
    if count_scale[position] <= 0:
        count = float(count_whole[position])
        if is_whole and (abs(factor * count) < _MOST_WHOLE or abs(count_whole[position]) <= _LAST // int(abs(factor))):
            product = int(factor) * count_whole[position]
            _add(whole, real, scale, at, product, 0.0, 0 if product != 0 else ZERO)
            return
        product_scale = 1
    else:
        count = count_real[position]
        product_scale = count_scale[position]
    value = factor
    while abs(value) >= LARGE and not math.isinf(value):
        value *= _SMALL
        product_scale += 1
    _add(whole, real, scale, at, 0, value * count, product_scale)


@leaf
def multiply(whole, real, scale, at, factor):
    """Make the number at an index so many times as large; `factor`: whole, positive and below 2^31."""
    if scale[at] == 0:
        if abs(whole[at]) <= _LAST // factor:
            whole[at] *= factor
            return
        real[at] = float(whole[at])
        scale[at] = 1
    value = real[at] * factor
    if abs(value) >= LARGE and not math.isinf(value):
        value *= _SMALL
        scale[at] += 1
    real[at] = value


@apart
def _add_to_limb(whole, at, addend, is_last):
    value = whole[at] + addend
    if -_FULL < value < _FULL:
        whole[at] = value
        return
    whole[at] = value & _LIMB
    if not is_last:
        whole[at + 1] += value >> LIMB_BITS


@apart
def add_times(whole, at, position, factor, n_limbs):
    """Add a factor of up to 2^53 times the limbs at one index to those at another."""
    sign = 1 if factor >= 0 else -1
    low_factor = abs(factor) & (2**_LOW_FACTOR - 1)
    high_factor = abs(factor) >> _LOW_FACTOR
    high_shift = LIMB_BITS - _LOW_FACTOR
    carry = 0
    for limb in range(n_limbs):
        value = whole[position + limb] + carry
        carry = value >> LIMB_BITS
        low = value & (2**_LOW_HALF - 1)
        high = (value & _LIMB) >> _LOW_HALF
        middle = low * high_factor
        crossed = high * low_factor
        top = high * high_factor
        here = (
            low * low_factor
            + ((middle & (2**high_shift - 1)) << _LOW_FACTOR)
            + ((crossed & (2**_LOW_HALF - 1)) << _LOW_HALF)
            + ((top & 1) << (_LOW_HALF + _LOW_FACTOR))
        )
        above = (middle >> high_shift) + (crossed >> _LOW_HALF) + (top >> 1)
        _add_to_limb(whole, at + limb, sign * here, limb + 1 == n_limbs)
        if limb + 1 < n_limbs:
            whole[at + limb + 1] += sign * above


@apart
def _add(whole, real, scale, at, other_whole, other_real, other_scale):
    """Add a number to the one at an index."""
    own_scale = scale[at]
    if own_scale <= 0 and other_scale <= 0:
        own = whole[at]
        if (other_whole >= 0 and own <= _LAST - other_whole) or (other_whole < 0 and own >= -_LAST - other_whole):
            total = own + other_whole
            whole[at] = total
            is_none = own == 0 and own_scale == 0 and other_scale == 0
            scale[at] = 0 if total != 0 or is_none else ZERO
            return
        real[at] = float(own) + float(other_whole)
        scale[at] = 1
        return
    value = real[at]
    if own_scale <= 0:
        value = float(whole[at])
        own_scale = 1 if value != 0.0 else other_scale
    addend = other_real
    if other_scale <= 0:
        addend = float(other_whole)
        other_scale = 1
    if own_scale == other_scale:
        value += addend
    elif addend != 0.0:
        if own_scale < other_scale:
            smaller, by = value, other_scale - own_scale
            value, own_scale = addend, other_scale
        else:
            smaller, by = addend, own_scale - other_scale
        if by == 1:
            value += smaller * _SMALL
        elif by == 2:
            value += smaller * _SMALL * _SMALL
    while abs(value) >= LARGE and not math.isinf(value):
        value *= _SMALL
        own_scale += 1
    real[at] = value
    scale[at] = own_scale


__all__ = [
    "ADDED",
    "BLOCK",
    "GREATEST",
    "LARGE",
    "LAST_LIMB",
    "LEAST",
    "LIMB",
    "LIMB_BITS",
    "ZERO",
    "add_product",
    "add_times",
    "enter_extreme",
    "factor_of",
    "multiply",
    "put_together",
]
