"""Codes for the strings of an engine, so that kernels compare doubles.

A stream that goes on for months names ever new tasks and containers. So the strings whose codes are in no state any
more are forgotten (`Interner.keep`); their codes are not given again. Rows that were told and not yet spelled out have
the strings that were known then (`Interner.known`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import Float64Array
from engine.kernels.columns.decode import are_as_long

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE]\+?\d+)?")
_LEAST_TEXTS = 4096
"""Of fewer strings none is forgotten."""
_N_TEXTS = "n_texts"


class KnownTexts(dict[int, str]):
    """Strings by code; what was known at one time. More are added, none is taken away."""

    def text(self, code: int) -> str:
        """The string of a code."""
        return self[code]


class Interner:
    """Codes for strings, shared by all queries of an engine: each distinct string gets the next number when it is first
    seen, or seen again after it has been forgotten."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.known = KnownTexts()
        self._codes: dict[str, int] = {}
        self._n = 0
        self._constants: set[int] = set()
        self._keep_at = _LEAST_TEXTS
        for text in texts:
            self.code(text)

    def code(self, text: str) -> int:
        """The code of `text`, a new one if it has none."""
        code = self._codes.setdefault(text, self._n)
        if code == self._n:
            self.known[code] = text
            self._n += 1
        return code

    def constant(self, text: str) -> int:
        """The code of a text that a query names: it is never forgotten."""
        code = self.code(text)
        self._constants.add(code)
        return code

    def text(self, code: int) -> str:
        """The string of a code."""
        return self.known[code]

    def __len__(self) -> int:
        """Strings that are known."""
        return len(self._codes)

    @property
    def texts(self) -> tuple[str, ...]:
        """All strings that are known, by code."""
        return tuple(self._codes)

    @property
    def is_to_be_looked_at(self) -> bool:
        """Whether so many strings have come that it is worth it to look for those that may be forgotten."""
        return len(self) >= self._keep_at

    def encode(self, strings: pa.Array) -> Float64Array:
        """Codes of an Arrow string array as doubles, NaN where null."""
        encoded = strings.dictionary_encode()
        codes = np.array([self.code(text) for text in encoded.dictionary.to_pylist()] + [np.nan], np.float64)
        indices = encoded.indices.fill_null(len(codes) - 1)
        return codes[np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)]

    def keep(self, state: Iterable[pa.Table]) -> None:
        """Forget the strings whose codes are not among the numbers of this state, all that there is of codes beside
        those of constants. A number that is no code keeps a string for longer, no more."""
        numbers = np.unique(np.concatenate([np.empty(0, np.float64), *numbers_in(state)]))
        codes = np.fromiter(self._codes.values(), np.int64, len(self))
        used = np.isin(codes.astype(np.float64), numbers) | np.isin(codes, list(self._constants))
        texts = list(self._codes)
        self._codes = {texts[at]: int(codes[at]) for at in np.flatnonzero(used).tolist()}
        self.known = KnownTexts({code: text for text, code in self._codes.items()})
        self._keep_at = max(_LEAST_TEXTS, 2 * len(self))

    # ------------------------------------------------------------------ state

    def save(self) -> pa.Table:
        """State as an Arrow table: text and code."""
        codes = pa.array(self._codes.values(), pa.int64())
        table = pa.table({"text": pa.array(self._codes, pa.string()), "code": codes})
        return table.replace_schema_metadata({_N_TEXTS: str(self._n)})

    @classmethod
    def restored(cls, table: pa.Table) -> Interner:
        """From what `save` returned; states of before have the code k for the k-th text. Raises StateError for a text
        or a code that is there twice."""
        texts = table.column("text").to_pylist()
        has_codes = "code" in table.column_names
        codes = table.column("code").to_pylist() if has_codes else list(range(len(texts)))
        made = cls()
        made._codes = dict(zip(texts, codes, strict=True))
        made.known = KnownTexts(zip(codes, texts, strict=True))
        if len(made._codes) != len(texts) or len(made.known) != len(texts):
            raise StateError("saved state codes one string twice")
        meta = table.schema.metadata or {}
        made._n = int(meta.get(_N_TEXTS.encode(), max(codes, default=-1) + 1))
        made._keep_at = max(_LEAST_TEXTS, 2 * len(texts))
        return made


def numbers_in(tables: Iterable[pa.Table]) -> Iterator[Float64Array]:
    """All that may be a code in saved state: its numbers, those whose bits are in whole numbers, and those in texts."""
    for table in tables:
        for column in table.columns:
            for chunk in column.chunks:
                yield from _numbers_of(chunk)
        for text in (table.schema.metadata or {}).values():
            yield _spelled(text.decode(errors="replace"))


def _numbers_of(array: pa.Array) -> Iterator[Float64Array]:
    kind = array.type
    if pa.types.is_nested(kind):
        inner = array.flatten()
        for part in inner if isinstance(inner, list) else [inner]:
            yield from _numbers_of(part)
    elif pa.types.is_dictionary(kind):
        yield from _numbers_of(array.dictionary_decode())
    elif pa.types.is_floating(kind):
        yield array.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
    elif pa.types.is_integer(kind):
        whole = array.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
        yield whole.astype(np.float64)
        yield whole.view(np.float64)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield _spelled(" ".join(array.drop_null().to_pylist()))
    elif not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise TypeError(f"saved state has a column of type {kind}: whether there are codes in it is not known")


def _spelled(text: str) -> Float64Array:
    found = _NUMBER.findall(text)
    whole = [int(number) for number in found if number.isdigit() and 16 < len(number) < 20]
    bits = np.array([number for number in whole if number < 2**63], np.int64).view(np.float64)
    return np.concatenate([np.array(found, np.float64), bits])


def is_one_text(strings: pa.Array) -> bool:
    """Whether a string array has one value throughout: much quicker to see than which values another one has."""
    if not len(strings) or strings.null_count or strings.type != pa.string():
        return False
    _, offset_buffer, text = strings.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    begin, second, end = (int(offsets[at]) for at in (0, 1, -1))
    length = second - begin
    if end - begin != length * len(strings):
        return False
    # Strings of one length are all the same if each is as the one before it: the text is compared with itself.
    if length and not text.slice(begin, end - second).equals(text.slice(second, end - second)):
        return False
    return bool(are_as_long(offsets, length))
