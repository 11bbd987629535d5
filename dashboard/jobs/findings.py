"""What heuristics found, as a table with advice below it."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.heuristics.judgement import Judged, Judgement
from app.heuristics.severity import Finding
from dashboard.jobs.heuristics import advised, rows
from dashboard.static_table import show_table
from dashboard.text import md

CORRECTED, ORIGINAL = "corrected", "as Dr. Elephant"


def chosen_findings(judgement: Judgement[Judged]) -> Sequence[Finding]:
    """Those of the mode that people choose."""
    chosen = st.segmented_control(
        "Computed", [CORRECTED, ORIGINAL], default=CORRECTED, required=True, key="heuristics", bind="query-params"
    )
    return judgement.findings(compatible=chosen == ORIGINAL)


def show_findings(findings: Sequence[Finding]) -> None:
    """The worst first; at least one."""
    found_rows = rows(findings)
    columns = {name: [row[name] for row in found_rows] for name in found_rows[0]}
    show_table(
        {name: cells for name, cells in columns.items() if any(cell != "" for cell in cells)},  # width for the others
        label="Heuristics",
        numbers=("Score",),
        whole=("Severity",),
        broken=("Measured", "Tasks"),
    )
    st.caption("The score is severity times tasks; 0 for none and low.")
    for heuristic, severity, advice in advised(findings):
        st.markdown(f"**{md(heuristic)}** ({md(severity)}): {md(advice, 1_000)}")


__all__ = ["chosen_findings", "show_findings"]
