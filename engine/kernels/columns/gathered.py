"""Some texts of a column, one after the other as Arrow has them."""

from __future__ import annotations

from engine.kernels.compile.ways import leaf


@leaf
def begin_texts(offsets, rows, begins):
    """Where the texts of these rows begin when they stand one after the other: begins int32 (m + 1,), filled.

    Returns how many bytes they have: where an int32 does not hold that, `begins` is not to be used.

    offsets: int32 (n + 1,), where each text of the column begins. rows: int64 (m,), of the column.
    """
    n_bytes = 0
    begins[0] = 0
    for k in range(rows.shape[0]):
        n_bytes += offsets[rows[k] + 1] - offsets[rows[k]]
        begins[k + 1] = n_bytes
    return n_bytes


@leaf
def copy_texts(offsets, texts, rows, begins, copied):
    """The texts themselves, one after the other.

    offsets, rows, begins: see `begin_texts`; texts: uint8 (n,), of the column; copied: uint8 (begins[m],), filled.
    """
    for k in range(rows.shape[0]):
        begin, at = offsets[rows[k]], begins[k]
        for j in range(begins[k + 1] - at):
            copied[at + j] = texts[begin + j]


__all__ = ["begin_texts", "copy_texts"]
