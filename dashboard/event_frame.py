"""Event tables as frames, whatever attributes the log has files for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa


def event_frame(events: pa.Table, names: Sequence[str]) -> pd.DataFrame:
    """The columns of these names, shape (n events, n names); one that the table lacks holds None."""
    return pd.DataFrame({name: _column(events, name) for name in names}, columns=list(names))


def _column(events: pa.Table, name: str) -> pd.Series[object]:
    if name not in events.column_names:
        return pd.Series([None] * events.num_rows, dtype=object)
    return events.column(name).to_pandas()
