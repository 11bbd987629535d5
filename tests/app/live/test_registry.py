"""The registry of sources, settings, builders, events.csv and config.yaml say the same."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from app.errors import ConfigError
from app.live.assembly import Live
from app.live.sources import BUILDERS, build_derivation, build_sources, source_ranks
from app.replay.replay import settings_for
from app.settings import JmxSource, Settings, Source, Sources
from collectors.schema import event_table
from collectors.sources import LIVE_SOURCES, SOURCE_OF_KIND, SPECS

CONFIG = Path(__file__).parents[3] / "config.yaml"


def test_names_are_registered_once() -> None:
    names = [spec.name for spec in SPECS]
    kinds = [kind for spec in SPECS for kind in spec.bulk_kinds]
    assert len(set(names)) == len(names)
    assert len(set(kinds)) == len(kinds) == len(SOURCE_OF_KIND)


def test_every_live_source_has_settings_and_a_builder() -> None:
    sections = {name for name, field in Sources.model_fields.items() if isinstance(field.annotation, type)
                and issubclass(field.annotation, Source)}  # fmt: skip
    assert set(LIVE_SOURCES) == sections == set(BUILDERS)
    assert list(source_ranks(Settings())) == list(LIVE_SOURCES)


def test_every_source_tells_something_and_nobody_else_does() -> None:
    assert all(spec.event_types for spec in SPECS)
    assert {name for row in event_table() for name in row.sources} == {spec.name for spec in SPECS}


def test_the_configuration_that_is_shipped_shows_all_of_them() -> None:
    shown = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["sources"]
    assert shown["precedence"] == list(LIVE_SOURCES)
    assert set(LIVE_SOURCES) <= set(shown)


def test_an_unknown_source_is_named() -> None:
    with pytest.raises(ValueError, match=r"there is no source 'job_histroy'; .*did you mean 'job_history'"):
        Sources(precedence=("job_histroy",))


def test_a_replay_asks_no_source_that_was_not_recorded(tmp_path: Path) -> None:
    """Whatever the configuration enables: it would tell of now among events of then."""
    manifest = SimpleNamespace(poll_interval_ms=5_000, hosts=(), timezone="UTC")
    recording: Any = SimpleNamespace(manifest=manifest)
    jmx = JmxSource(enabled=True, name_nodes=("http://nn1:9870",))
    configured = Settings(sources=Sources(jmx=jmx))
    replayed = settings_for(recording, configured, tmp_path, "http://127.0.0.1:1")
    assert set(build_sources(replayed)) == {"job_history", "yarn_rest", "container_log", "daemon_log", "ganglia_rrd"}


OF_FOLDERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "job_history": (
        {"directories": ["one", "two"], "quiet": "1 s", "counters": True},
        {"quiet_ms": 1_000, "counters": True},
    ),
    "container_log": (
        {"layout": "{container}/{role}", "roles": ["log"], "host": "n1", "time_zone": "Asia/Tokyo", "hold": "1 s",
         "abandon": "2 s", "revisit": "3 s"},
        {"layout": "{container}/{role}", "roles": ("log",), "host": "n1", "zone": "Asia/Tokyo", "hold_ms": 1_000,
         "abandon_ms": 2_000, "revisit_ms": 3_000},
    ),
    "daemon_log": (
        {"name_pattern": "(?P<host>.+)", "time_zone": "Asia/Tokyo", "client_trace": False},
        {"name_pattern": "(?P<host>.+)", "zone": "Asia/Tokyo", "client_trace": False},
    ),
    "hdfs_audit": (
        {"host": "nn1", "name_pattern": "audit", "time_zone": "Asia/Tokyo"},
        {"host": "nn1", "name_pattern": "audit", "zone": "Asia/Tokyo"},
    ),
    "job_client_log": (
        {"host": "edge1", "name_pattern": "out", "time_zone": "Asia/Tokyo", "hold": "1 s", "abandon": "2 s",
         "revisit": "3 s"},
        {"host": "edge1", "name_pattern": "out", "zone": "Asia/Tokyo", "hold_ms": 1_000, "abandon_ms": 2_000,
         "revisit_ms": 3_000},
    ),
    "spark_events": ({"quiet": "1 s"}, {"quiet_ms": 1_000}),
}  # fmt: skip
"""Of each source that follows files: settings, and the options that they are."""


@pytest.mark.parametrize("name", OF_FOLDERS)
def test_every_setting_of_a_source_of_files_is_an_option_of_its_collector(name: str, tmp_path: Path) -> None:
    given, expected = OF_FOLDERS[name]
    folder = {"directory": tmp_path} if name != "job_history" else {}
    every = {"enabled": True, "interval": "9 s", "lateness": "4 s", "hold_future": False, **folder, **given}
    assert {key.removesuffix("_ms") for key in type(getattr(Sources(), name)).model_fields} == set(every)
    settings = Settings(sources=Sources.model_validate({name: every, "hosts": {"n1": "node1"}}))
    options: Any = build_sources(settings)[name].source._collector._options  # type: ignore[attr-defined]
    rest = {"lateness_ms": 4_000, "hold_future": False, "source_rank": source_ranks(settings)[name]}
    assert {key: getattr(options, key) for key in (*expected, *rest)} == expected | rest
    if name == "job_history":
        assert options.roots == settings.sources.job_history.directories
    else:
        assert (options.root, dict(options.hosts)) == (tmp_path, {"n1": "node1"})


@pytest.mark.parametrize("name", OF_FOLDERS)
def test_what_a_source_of_files_is_not_told_is_as_its_options_have_it(name: str, tmp_path: Path) -> None:
    """But the folder, which it needs."""
    folder = {"directories": [tmp_path]} if name == "job_history" else {"directory": tmp_path}
    settings = Settings(sources=Sources.model_validate({name: {"enabled": True, **folder}}))
    options: Any = build_sources(settings)[name].source._collector._options  # type: ignore[attr-defined]
    root = {"roots": options.roots} if name == "job_history" else {"root": tmp_path}
    assert options == type(options)(**root, source_rank=source_ranks(settings)[name])
    with pytest.raises(ConfigError, match=rf"sources\.{name}\.director\w+: found nothing; expected a value"):
        build_sources(Settings(sources=Sources.model_validate({name: {"enabled": True}})))


def prometheus(**settings: Any) -> Settings:
    return Settings(sources=Sources.model_validate({"prometheus": {"enabled": True, **settings}}))


def test_exporters_are_built_from_the_settings(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret", encoding="utf-8")
    more = {"heap_used": {"metric": "jvm_memory_bytes_used", "labels": {"area": "heap"}, "unit": "bytes"}}
    settings = prometheus(targets=["n1:9100"], more_metrics=more, bearer_token_file=tmp_path / "token")
    assert list(build_sources(settings)) == ["prometheus"]
    for wrong, found in (
        ({}, "sources.prometheus.targets: found nothing"),
        ({"targets": ["n 1"]}, "the address 'n 1'"),
        ({"targets": ["n1:9100"], "metrics": ["cpu_usr"]}, "did you mean 'cpu_user'"),
        ({"targets": ["n1:9100"], "bearer_token_file": tmp_path / "nowhere"}, "cannot be read"),
        ({"targets": ["n1:9100"], "ca_file": tmp_path / "token"}, "sources.prometheus.ca_file"),
        ({"targets": ["n1:9100"], "more_metrics": {"x": {"metric": "y", "labels": {"a": "("}}}}, "no regular"),
    ):
        with pytest.raises(ConfigError, match=found):
            build_sources(prometheus(**wrong))


def test_gmond_is_built_from_the_settings() -> None:
    def settings(**given: Any) -> Settings:
        return Settings(sources=Sources.model_validate({"gmond": {"enabled": True, **given}}))

    assert list(build_sources(settings(addresses=["n1", "gmetad:8652/c"]))) == ["gmond"]
    for wrong, found in (({}, "gmond.addresses: found nothing"), ({"addresses": ["http://n1:8649"]}, "HOST:PORT")):
        with pytest.raises(ConfigError, match=found):
            build_sources(settings(**wrong))


def gmond_udp(**given: Any) -> Settings:
    return Settings(sources=Sources.model_validate({"gmond_udp": {"enabled": True, **given}}))


def test_a_receiver_of_packets_beyond_loopback_needs_to_know_who_may_send() -> None:
    assert list(build_sources(gmond_udp())) == ["gmond_udp"]
    assert list(build_sources(gmond_udp(address="0.0.0.0", allow=["10.0.0.0/8"]))) == ["gmond_udp"]
    with pytest.raises(ValueError, match=r"is not loopback: expected `allow`"):
        gmond_udp(address="0.0.0.0")
    with pytest.raises(ConfigError, match="addresses and networks such as"):
        build_sources(gmond_udp(allow=["node1"]))


def test_a_path_that_is_closed_leaves_its_address_to_the_next_one() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first, second = (build_sources(gmond_udp(port=port)) for _ in range(2))
    assert first["gmond_udp"].source.poll(1_000).problems == ()
    assert [problem.kind for problem in second["gmond_udp"].source.poll(1_000).problems] == ["unavailable"]
    paths: list[Any] = [Live(pipeline=SimpleNamespace(event_log=None), sources=built) for built in (first, second)]  # type: ignore[arg-type]
    paths[0].close()
    assert second["gmond_udp"].source.poll(2_000).problems == ()
    paths[1].close()


def test_the_load_is_derived_from_each_source_of_samples(tmp_path: Path) -> None:
    sources = Sources.model_validate(
        {
            "ganglia_rrd": {"enabled": True, "directory": tmp_path},
            "gmond": {"enabled": True, "addresses": ["n1:8649"]},
            "gmond_udp": {"enabled": True},
            "jmx": {"enabled": True, "data_nodes": ["http://n1:9864"]},
            "prometheus": {"enabled": True, "targets": ["n1:9100"]},
            "remote_write": {"enabled": True},
        }
    )
    settings = Settings(sources=sources)
    saved = build_derivation(settings, build_sources(settings)).save()
    assert list(saved["derivers"]) == ["ganglia_rrd", "gmond", "gmond_udp", "jmx", "prometheus", "remote_write"]
