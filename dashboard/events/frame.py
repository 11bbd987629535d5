"""Event tables as frames, whatever attributes the log has files for."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pyarrow as pa


def event_frame(events: pa.Table, names: Sequence[str]) -> pd.DataFrame:
    """The columns of these names, shape (n events, n names); one that the table lacks holds None."""
    there = [name for name in names if name in events.column_names]
    frame: pd.DataFrame = events.select(there).to_pandas()
    for name in names:
        if name not in there:
            frame[name] = pd.Series([None] * len(frame), index=frame.index, dtype=object)
    return frame[list(names)]
