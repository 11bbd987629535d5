"""Hashes of labels and classes for the open tables of `pairs.labels`: 31 bits, equal with and without the JIT."""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import leaf


@leaf
def mix(state, value):
    """One round of a multiplicative hash: 31 bits in, 31 bits out, so that no product leaves 62 bits."""
    state = (state ^ (value & 0x7FFFFFFF)) * 0x5BD1E995
    state = (state ^ (state >> 31)) & 0x7FFFFFFF
    rest = value >> 31
    if rest != 0:
        state = (state ^ (rest & 0x7FFFFFFF)) * 0x5BD1E995
        state = (state ^ (state >> 31) ^ (rest >> 31)) & 0x7FFFFFFF
    return state


@leaf
def hash_class(a, b, c, d, e):
    """Hash of the five integers that identify a class of confidence."""
    state = mix(np.int64(0x1234567), np.int64(a))
    state = mix(state, np.int64(b))
    state = mix(state, np.int64(c))
    state = mix(state, np.int64(d))
    return mix(state, np.int64(e))


@leaf
def hash_label(step, position, of, keys, at):
    """Hash of a label: component, candidate, class, and in keys[at] what later predicates read."""
    state = mix(np.int64(0x7654321), np.int64(step))
    state = mix(state, np.int64(position))
    state = mix(state, np.int64(of))
    for k in range(keys.shape[1]):
        if keys[at, k] != 0:  # most are: nothing later reads them
            state = mix(state ^ k, keys[at, k])
    return state


__all__ = ["hash_class", "hash_label", "mix"]
