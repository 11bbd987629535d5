"""Query files as the application loads them: parameters, runbook, everything that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from app.alerting.text import fill, placeholders, runbook_sections
from app.queries.loading import Loaded, load_queries, without_incidents
from app.settings import Queries, Severity
from collectors.schema import load_event_types

SHIPPED = Path(__file__).resolve().parents[3] / "queries"

QUERY = """
PARAMETERS factor = 3, min_elapsed = 1 minute
PATTERN SEQ(MapStart a, MapEnd b)
WHERE skip_till_next_match { [task_id] AND b.period_ms > :factor AND b.period_ms >= :min_elapsed }
WITHIN 1 hour
RETURN a.task_id, b.period_ms
ALERT warning '{task_id} took {period_ms} ms'
GROUP_GAP 5 minutes
"""


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path, slow__cep=QUERY, RUNBOOK__md="# Runbook\n\n## slow\n\nLook at the host.\n\n## other\nx\n")


def test_what_alerting_learns_of_a_query(folder: Path) -> None:
    loaded = load_queries(Queries(directory=folder), 7)
    info = loaded.infos["slow"]
    assert loaded.problems == ()
    assert (info.severity, info.group_gap_ms, info.within_ms) == (Severity.WARNING, 300_000, 3_600_000)
    assert (info.runbook, info.types) == ("Look at the host.", {"MapStart", "MapEnd"})


def test_severities_can_be_set(folder: Path) -> None:
    report = QUERY.replace("ALERT warning", "REPORT").replace("GROUP_GAP 5 minutes", "")
    write(folder, other__cep=report)

    def load(**severities: Severity) -> Loaded:
        return load_queries(Queries(directory=folder, severities=severities), 7)

    plain, urgent = load(), load(slow=Severity.CRITICAL)
    assert urgent.problems == ()
    assert (plain.infos["slow"].severity, urgent.infos["slow"].severity) == (Severity.WARNING, Severity.CRITICAL)
    assert plain.infos["slow"].hash == urgent.infos["slow"].hash  # so its alerts stay the same ones
    (unknown,) = load(slwo=Severity.INFO).problems
    assert unknown == "queries.severities: found 'slwo'; expected one of other, slow; did you mean 'slow'?"
    (report_problem,) = load(other=Severity.INFO).problems
    assert report_problem.startswith("queries.severities.other: found 'info'; expected the name of a query that raises")
    assert load(other=Severity.INFO).infos["other"].is_report


@pytest.mark.parametrize(
    ("strategy", "key", "read", "ignored"),
    [
        ("strict_contiguity", "task_id", {"MapStart", "MapEnd", "Metric"}, set()),
        ("partition_contiguity", "job_id", {"MapStart", "MapEnd", "JobEnd", "Metric"}, set()),
        ("skip_till_next_match", "task_id", {"MapStart", "MapEnd"}, {"JobEnd", "Metric"}),
    ],
)
def test_events_that_may_not_lie_between_are_read_too(
    folder: Path, strategy: str, key: str, read: set[str], ignored: set[str]
) -> None:
    text = QUERY.replace("skip_till_next_match", strategy).replace("[task_id]", f"[{key}]")
    loaded = load_queries(Queries(directory=write(folder, slow__cep=text)), 7)
    assert loaded.problems == ()
    types = loaded.infos["slow"].types
    assert read <= types
    assert not ignored & types


def test_the_configured_gap_holds_where_the_query_gives_none(folder: Path) -> None:
    write(folder, slow__cep=QUERY.replace("GROUP_GAP 5 minutes", ""))
    assert load_queries(Queries(directory=folder), 7).infos["slow"].group_gap_ms == 7


def test_parameters_change_the_meaning_and_so_the_hash(folder: Path) -> None:
    def hash_with(**values: int | str) -> str:
        return load_queries(Queries(directory=folder, parameters={"slow": dict(values)}), 7).infos["slow"].hash

    assert hash_with() == hash_with(factor=3, min_elapsed="1 min") == hash_with(min_elapsed=60_000)
    assert len({hash_with(), hash_with(factor=4), hash_with(min_elapsed="2 min")}) == 3


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"factr": 4}, "factr"),
        ({"min_elapsed": "soon"}, "queries.parameters.slow.min_elapsed: found 'soon'"),
        ({"factor": True}, "queries.parameters.slow.factor: found True"),
    ],
)
def test_wrong_parameters_are_problems(folder: Path, values: dict[str, int | str], complaint: str) -> None:
    loaded = load_queries(Queries(directory=folder, parameters={"slow": values}), 7)
    (problem,) = loaded.problems
    assert complaint in problem


def test_disabled_queries_do_not_run(folder: Path) -> None:
    loaded = load_queries(Queries(directory=folder, disabled=("slow",)), 7)
    assert (loaded.compiled, loaded.problems) == ((), ())


def test_every_file_that_is_wrong_is_named(folder: Path) -> None:
    write(folder, bad__cep="PATTERN", worse__cep="\x00", lonely__cep=QUERY)
    (folder / "bytes.cep").write_bytes(b"\xff\xfe")
    problems = load_queries(Queries(directory=folder), 7).problems
    assert [name for name in ("bad", "bytes", "lonely", "worse") if not any(f"{name}.cep" in p for p in problems)] == []
    assert any("no runbook paragraph" in problem and "lonely" in problem for problem in problems)


def test_a_folder_without_queries(tmp_path: Path) -> None:
    assert "no .cep file" in load_queries(Queries(directory=tmp_path), 7).problems[0]
    assert "no folder" in load_queries(Queries(directory=tmp_path / "none"), 7).problems[0]


def test_runbook_headings() -> None:
    text = "# top\nintro\n## `a`\none\n\ntwo\n### b ###\nthree"
    assert runbook_sections(text) == {"top": "intro", "a": "one\n\ntwo", "b": "three"}


def test_summaries_are_filled_once_and_as_text() -> None:
    assert fill("{a} {b} {c}", {"a": "{b}", "b": None}) == "{b} unknown {c}"
    assert fill("{x}", {"x": 0.1 + 0.2}) == "0.3"
    assert fill("a\nb", {}) == "a b"
    assert len(fill("{a}{a}{a}{a}{a}{a}{a}", {"a": "x" * 10_000})) == 1_000
    assert placeholders("{a} {b_1} {} {1} {a}") == {"a", "b_1"}


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("{x:duration}", "1 min 4 s"),
        ("{x:size}", "62.2 KiB"),
        ("{x:time}", "1970-01-01 00:01:03.665 UTC"),
        ("{x.max:duration} of {x.max}", "2 min of 120000"),
        ("{none:size} {text:duration} {nan:time} {far:time}", "unknown slow nan 1e+30"),
        (
            "{x:bytes} {x.most} {x.max.min} {x:} {x.} {:size} {x:size:size}",
            "{x:bytes} {x.most} {x.max.min} {x:} {x.} {:size} {x:size:size}",
        ),
        ("{y:size} {x.min}", "{y:size} {x.min}"),
        ("{mean} files, {small}, {edge}, {neg}, {far}", "3333333 files, 999999, 1000000, -1000000, 1e+30"),
    ],
)
def test_numbers_are_written_as_people_read_them(template: str, written: str) -> None:
    values = {"x": 63_665, "x.max": 120_000, "none": None, "text": "slow", "nan": float("nan"), "far": 1e30}
    values |= {"mean": 1e7 / 3, "small": 999_999.4, "neg": -1e6, "edge": 999_999.5}
    assert fill(template, values) == written


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (92.9634, "%", "92.96 %"),
        (43, "%", "43 %"),
        (144_049_176, "bytes", "137.4 MiB"),
        (63_665.0, "ms", "1 min 4 s"),
        (1_234_567.8, "packets/sec", "1234568 packets/sec"),
        (0.000_012_345, "GB", "1.234e-05 GB"),
        (-0.5, None, "-0.5"),
        (2.0, "", "2"),
        (None, "%", "unknown"),
        ("text", "%", "text"),
        (5.5, "%\n<b>", "5.5 % <b>"),
    ],
)
def test_a_number_is_written_with_the_unit_beside_it(value: object, unit: object, told: str) -> None:
    assert fill("{x:unit}", {"x": value, "unit": unit}) == told


def test_fractions_are_rounded_for_people_alone() -> None:
    values = {"x": 43.4843127, "y": 3_333_333.3, "z": 999.96, "n": 144_049_176, "e": 1.5e17}
    assert fill("{x} {y} {z} {n} {e}", values) == "43.48 3333333 1000 144049176 1.5e+17"
    assert fill("{x} {y} {z} {n}", values, for_people=False) == "43.4843 3.33333e+06 999.96 144049176"


PAIRS = "PATTERN SEQ(MapStart a, MapEnd b) WHERE skip_till_any_match { [task_id] } WITHIN 1 hour RETURN b.host"
OVER = """PATTERN SEQ(map_pairs p, map_pairs q) WHERE skip_till_any_match { [host] } WITHIN 10 minutes
ALERT info '{host}' RETURN p.host"""


def test_queries_may_use_each_others_matches(folder: Path) -> None:
    loaded = load_queries(Queries(directory=write(folder, **{"map-pairs__cep": PAIRS, "other__cep": OVER})), 7)
    assert loaded.problems == ()  # nobody is told of map-pairs alone: it needs no runbook
    assert [query.name for query in loaded.compiled] == ["map-pairs", "other", "slow"]
    assert (loaded.infos["other"].types, loaded.infos["other"].within_ms) == ({"MapStart", "MapEnd"}, 4_200_000)
    engine.Engine(loaded.compiled, load_event_types())


def test_what_is_wrong_with_a_producer_is_told_once(folder: Path) -> None:
    broken = PAIRS.replace("b.host", "b.hots")
    loaded = load_queries(Queries(directory=write(folder, **{"map-pairs__cep": broken, "other__cep": OVER})), 7)
    first, second = loaded.problems
    assert "hots" in first
    assert second.endswith("it uses the matches of map-pairs, which has problems of its own")


def test_aggregates_of_the_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "own_metrics.py").write_text("def top_share(values):\n    return float(values.max() / values.sum())\n")
    monkeypatch.syspath_prepend(str(folder))
    text = """PATTERN SEQ(MapStart a, TaskSample+ b[]) WHERE skip_till_next_match { [task_id] } WITHIN 1 hour
    RETURN top_share(b[].cpu_ms) AS share REPORT 'x'"""
    write(folder, other__cep=text)
    loaded = load_queries(Queries(directory=folder, aggregates=("own_metrics:top_share",)), 7)
    assert loaded.problems == ()
    wrong = load_queries(Queries(directory=folder, aggregates=("own_metrics", "own_metrics:other", "nowhere:f")), 7)
    assert [problem.split(":")[0] for problem in wrong.problems] == ["queries.aggregates"] * 3


@pytest.mark.parametrize(("clause", "named"), [("LIMIT 3", "LIMIT 3"), ("OUTPUT TOP 2 BY CONFIDENCE", "OUTPUT TOP 2")])
def test_what_counts_over_a_run_needs_a_window_on_a_stream(folder: Path, clause: str, named: str) -> None:
    text = QUERY.replace("WITHIN 1 hour", "WITHIN 1 hour{}\n" + clause)
    (problem,) = load_queries(Queries(directory=write(folder, slow__cep=text.replace("{}", ""))), 7).problems
    assert f"{named} counts over a whole run" in problem
    assert "slow.cep" in problem
    assert "^" in problem
    assert "add SLIDE" in problem
    for window in (" SLIDE 1 minute", " OPEN ON type = 'JobStart'"):
        loaded = load_queries(Queries(directory=write(folder, slow__cep=text.replace("{}", window))), 7)
        assert not loaded.problems


TREND = (
    "PATTERN MapEnd+ m GROUP BY host WITHIN 1 minute SLIDE 20 s RETURN host, COUNT(*) AS n ALERT info '{n} on {host}'"
)


def test_the_key_of_alerts_about_trends_is_their_group(folder: Path) -> None:
    write(folder, other__cep=TREND)
    loaded = load_queries(Queries(directory=folder), 7)
    assert not loaded.problems
    info = loaded.infos["other"]
    assert (info.key, info.within_ms, info.is_report) == (("host",), 60_000, False)


def test_rows_about_trends_can_be_reports(folder: Path) -> None:
    write(folder, other__cep=TREND.partition(" ALERT")[0])
    loaded = load_queries(Queries(directory=folder), 7)
    assert not loaded.problems
    assert loaded.infos["other"].is_report


TOGETHER = """PATTERN SEQ(slow a, slow b) WHERE skip_till_any_match { [host] AND a.task_id != b.task_id } WITHIN 1 hour
INCIDENT info 'tasks are slow on {host}' HOSTS SUSPECT host"""
WITH_HOST = QUERY.replace("RETURN a.task_id", "RETURN b.host, a.task_id")


def test_an_incident_knows_whose_alerts_are_part_of_it(folder: Path) -> None:
    loaded = load_queries(Queries(directory=write(folder, slow__cep=WITH_HOST, other__cep=TOGETHER)), 7)
    assert loaded.problems == ()
    other, slow = loaded.infos["other"], loaded.infos["slow"]
    assert (other.binds, other.is_incident, slow.is_incident) == ({"slow"}, True, False)
    assert slow.depth < other.depth
    assert without_incidents(loaded).infos.keys() == {"slow"}


def test_incidents_of_queries_that_are_disabled_do_not_run_and_say_why(folder: Path) -> None:
    above = TOGETHER.replace("slow a, slow b", "other a, other b").replace(" AND a.task_id != b.task_id", "")
    write(folder, slow__cep=WITH_HOST, other__cep=TOGETHER.replace("HOSTS", "RETURN a.task_id HOSTS"), above__cep=above)
    loaded = load_queries(Queries(directory=folder, disabled=("slow",)), 7)
    assert (loaded.compiled, loaded.problems) == ((), ())
    above_text, other_text = loaded.left_out
    assert other_text.endswith("other.cep: left out: it uses the matches of slow, which does not run")
    assert above_text.endswith("above.cep: left out: it uses the matches of other, which does not run")


def test_an_incident_without_alerts_is_refused(folder: Path) -> None:
    write(folder, other__cep=QUERY.replace("ALERT", "INCIDENT"))
    (problem,) = load_queries(Queries(directory=folder), 7).problems
    assert "other.cep: INCIDENT binds no alerts; expected the match of a query with ALERT" in problem


def test_each_shipped_incident_that_suspects_one_host_is_of_that_host() -> None:
    """Else another host would join the incident of the first one, under its title."""
    infos = load_queries(Queries(directory=SHIPPED), 7).infos
    suspects = {
        name: (info.hosts[0].name, {*info.key, *info.per})
        for name, info in infos.items()
        if info.is_incident and info.hosts
    }
    assert len(suspects) >= 4
    assert {name for name, (name_of_host, told_apart) in suspects.items() if name_of_host not in told_apart} == set()
