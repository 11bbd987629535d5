"""Codes for the strings of an engine, so that kernels compare doubles."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from engine.events import Float64Array
from engine.kernels.decode import is_repeated

_NO_TEXT = np.empty(0, np.uint8)


class Interner:
    """Codes for strings, shared by all queries of an engine: code k is the k-th distinct string seen."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._codes: dict[str, int] = {}
        for text in texts:
            self.code(text)

    def code(self, text: str) -> int:
        """The code of `text`, a new one if it has none yet."""
        code = self._codes.setdefault(text, len(self._texts))
        if code == len(self._texts):
            self._texts.append(text)
        return code

    def text(self, code: int) -> str:
        """The string of a code."""
        return self._texts[code]

    @property
    def texts(self) -> tuple[str, ...]:
        """All strings by code."""
        return tuple(self._texts)

    def encode(self, strings: pa.Array) -> Float64Array:
        """Codes of an Arrow string array as doubles, NaN where null."""
        encoded = strings.dictionary_encode()
        codes = np.array([self.code(text) for text in encoded.dictionary.to_pylist()] + [np.nan], np.float64)
        indices = encoded.indices.fill_null(len(codes) - 1)
        return codes[np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)]


def is_one_text(strings: pa.Array) -> bool:
    """Whether a string array has one value throughout: much quicker to see than which values another one has."""
    if not len(strings) or strings.null_count or strings.type != pa.string():
        return False
    _, offset_buffer, text = strings.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    return bool(is_repeated(offsets, np.frombuffer(text, np.uint8) if text else _NO_TEXT))
