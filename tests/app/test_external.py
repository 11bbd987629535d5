"""The whole path over real inputs of other clusters, good and bad: nothing stops it, everything is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.alerting.notifier import Notifier
from app.clock import SetClock
from app.config import load_settings
from app.live.assembly import checked_queries, open_configured_store
from app.process.runner import Runner

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared/data"
NOW_MS = 1_800_000_000_000
"""Later than anything in there."""

pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(not DATA.is_dir(), reason="the shared real inputs are not here"),
]


def test_nothing_stops_the_path(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        f"""
sources:
  job_history: {{enabled: true, directories: [{DATA}]}}
  container_log: {{enabled: true, directory: {DATA}/logs}}
  daemon_log: {{enabled: true, directory: {DATA}/logs}}
  ganglia_rrd: {{enabled: true, directory: {DATA}/ganglia}}
queries: {{directory: {ROOT}/queries}}
"""
    )
    settings, clock = load_settings(tmp_path / "config.yaml", {}), SetClock(NOW_MS)
    with open_configured_store(settings, durable=False) as store:
        runner = Runner(settings, checked_queries(settings), store, Notifier(store, {}, clock), clock, durable=False)
        for _ in range(3):
            for name in runner.live.sources:
                runner.poll(name)
            runner.step()
            runner.go_back()
            clock.advance_to(clock.now_ms() + 60_000)
        problems = store.problems()
        assert {p.source for p in problems} <= set(runner.live.sources) | {"engine"}
        assert "job_history" in {p.source for p in problems}
        assert not [p for p in problems if p.kind == "collector_failed"]
        jobs = sum(s.value for s in store.statistics("history") if s.type == "JobStart")
        assert jobs > 0
        assert store.n_reports_by_query()["mapper-lifetimes"] <= jobs
        assert runner.live.pipeline.number == 3
