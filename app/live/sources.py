"""From settings to collectors: one constructor per source, as data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, dataclass, fields, replace
from typing import Any, ClassVar, Protocol, TypeVar

from app.errors import ConfigError, ConfigProblem
from app.live.clock_skew import ClockSkewBounds
from app.live.derivation import Derivation
from app.live.http_sources import http_options
from app.live.intake import Source
from app.nearest_name import did_you_mean
from app.process.serving.write_receiver import secrets_of
from app.settings import PrometheusSource, RemoteWriteSource, Settings
from app.settings import Source as SourceSettings
from collectors.base import Collector, OptionError, SourceUnavailableError
from collectors.client.job_client_log import JobClientLogCollector, JobClientLogOptions
from collectors.ganglia.gmond import GmondCollector, GmondOptions
from collectors.ganglia.gmond_link import Ask
from collectors.ganglia.gmond_udp import GmondUdpCollector, GmondUdpOptions
from collectors.ganglia.rrd import DEFAULT_METRICS, GangliaRrdCollector, GangliaRrdOptions
from collectors.history.job_history import JobHistoryCollector, JobHistoryOptions
from collectors.jmx.jmx import HTTP as JMX_HTTP
from collectors.jmx.jmx import JmxCollector, JmxOptions
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from collectors.logs.hdfs_audit import HdfsAuditCollector, HdfsAuditOptions
from collectors.metrics.load_balance import LoadDeriver, LoadOptions
from collectors.metrics.normal import USUAL_METRICS
from collectors.network.http import HttpOptions
from collectors.prometheus.credentials import Credentials
from collectors.prometheus.prometheus import HTTP as PROMETHEUS_HTTP
from collectors.prometheus.prometheus import PrometheusCollector, PrometheusOptions
from collectors.prometheus.readings import DEFAULT_METRICS as PROMETHEUS_METRICS
from collectors.prometheus.readings import READINGS, Kind, Reading
from collectors.prometheus.remote_write import RemoteWriteCollector, RemoteWriteOptions
from collectors.prometheus.targets import TargetDefaults
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from collectors.rest.yarn_timeline import YarnTimelineCollector, YarnTimelineOptions
from collectors.sources import LIVE_SOURCES, SPECS, Samples
from collectors.spark.spark_events import SparkEventsCollector, SparkEventsOptions


class _Dataclass(Protocol):
    """Options of any collector."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


_Options = TypeVar("_Options", bound=_Dataclass)

_OF_POLLING = ("enabled", "interval_ms")
"""Settings of every source that its collector does not see."""


@dataclass(frozen=True)
class ConfiguredSource:
    """A source and how often it is polled."""

    source: Source
    interval_ms: int


def build_sources(settings: Settings) -> dict[str, ConfiguredSource]:
    """The enabled sources by name, in order of precedence; raises ConfigError with everything that is missing."""
    problems: list[ConfigProblem] = []
    built: dict[str, ConfiguredSource] = {}
    for name, rank in source_ranks(settings).items():
        section: SourceSettings = getattr(settings.sources, name)
        if not section.enabled:
            continue
        try:
            built[name] = ConfiguredSource(BUILDERS[name](settings, rank), section.interval_ms)
        except _MissingError as missing:
            problems.append(ConfigProblem(f"sources.{name}.{missing}", "nothing", "a value, as the source is enabled"))
        except ConfigError as error:
            problems += error.problems
        except OptionError as error:
            problems.append(ConfigProblem(f"sources.{name}", str(error), "options that can work"))
    if problems:
        raise ConfigError("configuration", tuple(problems))
    return built


def source_ranks(settings: Settings) -> dict[str, int]:
    """Rank of every source: the configured order, then those that it leaves out in alphabetical order."""
    named = list(settings.sources.precedence)
    rest = sorted(set(LIVE_SOURCES) - set(named))
    return {name: rank for rank, name in enumerate([*named, *rest])}


def clock_skew_of(settings: Settings) -> ClockSkewBounds:
    """By how much clocks may be off."""
    section = settings.sources.clock_skew
    return ClockSkewBounds(section.default_ms, section.clocks, section.offsets)


def load_options(settings: Settings) -> LoadOptions:
    """How the load of the nodes is derived, but for the rank of the source."""
    load = settings.load
    return LoadOptions(load.metric, load.busy_percent, load.low_ratio, load.high_ratio)


def build_derivation(settings: Settings, sources: Collection[str]) -> Derivation:
    """What is done to the polls of these sources before they are ordered."""
    ranks, load = source_ranks(settings), load_options(settings)
    kinds = {spec.name: spec.samples for spec in SPECS if spec.samples is not None and spec.name in sources}
    windows = remote_write_options(settings) if "remote_write" in kinds else None
    holds_ms = {name: getattr(settings.sources, name).hold_ms for name in kinds if kinds[name] is Samples.HELD}
    derivers = {
        name: LoadDeriver(
            replace(load, source_rank=ranks[name]),
            of_polls=kinds[name] in (Samples.OF_POLLS, Samples.HELD),
            window_ms=windows.step_ms if windows is not None and kinds[name] is Samples.OF_WINDOWS else None,
            ahead_ms=0 if windows is None else windows.ahead_ms,
            hold_ms=holds_ms.get(name),
        )
        for name in sorted(kinds, key=ranks.__getitem__)
    }
    return Derivation(derivers, clock_skew_of(settings), load, holds_ms)


class _MissingError(Exception):
    """A key that an enabled source needs."""


def _of_folder(
    name: str,
    options_of: type[_Options],
    collector_of: Callable[[_Options], Collector],
    folder: tuple[str, str] = ("directory", "root"),
) -> Callable[[Settings, int], Source]:
    """Builder of a source that follows the files of a folder, whose name as a setting and as an option is given.

    Every other setting is an option of the same name; one that is null is left to the options' own default.
    """
    key_of_folder, _ = folder
    names = dict([folder, ("time_zone", "zone")])
    has_hosts = "hosts" in {field.name for field in fields(options_of)}

    def build(settings: Settings, rank: int) -> Source:
        section: SourceSettings = getattr(settings.sources, name)
        if not getattr(section, key_of_folder):
            raise _MissingError(key_of_folder)
        chosen = {names.get(key, key): value for key, value in section if key not in _OF_POLLING and value is not None}
        chosen["source_rank"] = rank
        if has_hosts:
            chosen["hosts"] = settings.sources.hosts
        return Source(collector_of(options_of(**chosen)))

    return build


def _ganglia_rrd(settings: Settings, rank: int) -> Source:
    section, load = settings.sources.ganglia_rrd, settings.load
    if section.directory is None:
        raise _MissingError("directory")
    options = GangliaRrdOptions(
        root=section.directory,
        lateness_ms=section.lateness_ms,
        source_rank=rank,
        metrics=tuple(dict.fromkeys((*(section.metrics or DEFAULT_METRICS), load.metric))),
        backfill_ms=section.backfill_ms,
        silent_ms=section.silent_ms,
        hosts=settings.sources.hosts,
        daemon=section.daemon,
    )
    return Source(GangliaRrdCollector(options))


def _gmond(settings: Settings, rank: int) -> Source:
    section, load = settings.sources.gmond, settings.load
    if not section.addresses:
        raise _MissingError("addresses")
    options = GmondOptions(
        addresses=section.addresses,
        metrics=tuple(dict.fromkeys((*(section.metrics or USUAL_METRICS), load.metric))),
        lateness_ms=section.lateness_ms,
        source_rank=rank,
        silent_ms=section.silent_ms,
        answer_timeout_ms=2 * section.timeout_ms,
        poll_timeout_ms=section.poll_timeout_ms,
        n_workers=section.n_workers,
        hosts=settings.sources.hosts,
    )
    ask = Ask(silence_s=section.timeout_ms / 1000, max_bytes=section.max_size_bytes)
    return Source(GmondCollector(options, ask))


def _gmond_udp(settings: Settings, rank: int) -> Source:
    section, load = settings.sources.gmond_udp, settings.load
    options = GmondUdpOptions(
        address=section.address,
        port=section.port,
        allow=section.allow,
        cluster=section.cluster,
        metrics=tuple(dict.fromkeys((*(section.metrics or USUAL_METRICS), load.metric))),
        lateness_ms=section.lateness_ms,
        source_rank=rank,
        hosts=settings.sources.hosts,
    )
    return Source(GmondUdpCollector(options))


def _yarn_rest(settings: Settings, rank: int) -> Source:
    section = settings.sources.yarn_rest
    options = YarnRestOptions(
        resource_manager_urls=section.resource_managers,
        history_url=section.history_server,
        lateness_ms=section.lateness_ms,
        source_rank=rank,
        lookback_ms=section.lookback_ms,
        history_wait_ms=section.history_wait_ms,
        master_timeout_ms=section.master_timeout_ms,
        poll_timeout_ms=section.poll_timeout_ms,
        n_workers=section.n_workers,
        sample_counters=section.sample_counters,
        http=http_options(
            "yarn_rest",
            section,
            HttpOptions(connect_timeout_s=section.timeout_ms / 1000, n_attempts=section.n_attempts),
            n_silences=3,
        ),
    )
    return Source(YarnRestCollector(options))


def _yarn_timeline(settings: Settings, rank: int) -> Source:
    section = settings.sources.yarn_timeline
    options = YarnTimelineOptions(
        server_url=section.server,
        lateness_ms=section.lateness_ms,
        source_rank=rank,
        lookback_ms=section.lookback_ms,
        containers=section.containers,
        settle_ms=section.settle_ms,
        poll_timeout_ms=section.poll_timeout_ms,
        hosts=settings.sources.hosts,
        http=http_options("yarn_timeline", section, HttpOptions(n_attempts=1), n_silences=2),
    )
    return Source(YarnTimelineCollector(options))


def _jmx(settings: Settings, rank: int) -> Source:
    section = settings.sources.jmx
    daemons = {
        "NameNode": section.name_nodes,
        "DataNode": section.data_nodes,
        "ResourceManager": section.resource_managers,
        "NodeManager": section.node_managers,
        "JobHistoryServer": section.history_servers,
    }
    if not any(daemons.values()):
        raise _MissingError("name_nodes")
    options = JmxOptions(
        daemons=daemons,
        lateness_ms=section.lateness_ms,
        source_rank=rank,
        daemon_timeout_ms=section.daemon_timeout_ms,
        poll_timeout_ms=section.poll_timeout_ms,
        n_workers=section.n_workers,
        host_metrics=section.host_metrics,
        hosts=settings.sources.hosts,
        http=http_options("jmx", section, JMX_HTTP, n_silences=2),
    )
    return Source(JmxCollector(options))


def _prometheus(settings: Settings, rank: int) -> Source:
    section = settings.sources.prometheus
    if not (section.targets or section.file_sd or section.http_sd):
        raise _MissingError("targets")
    auth = section.basic_auth
    credentials = Credentials(
        section.bearer_token_file, None if auth is None else auth.username, None if auth is None else auth.password_file
    )
    try:
        credentials.header()
    except SourceUnavailableError as error:
        problem = ConfigProblem("sources.prometheus", str(error), "a readable file with the secret")
        raise ConfigError("configuration", (problem,)) from None
    options = PrometheusOptions(
        targets=section.targets,
        files=section.file_sd,
        servers=section.http_sd,
        defaults=TargetDefaults(section.scheme, section.metrics_path, section.cluster, settings.sources.hosts),
        readings=_readings(section, settings.load.metric),
        lateness_ms=section.lateness_ms,
        source_rank=rank,
        target_timeout_ms=2 * section.timeout_ms,
        poll_timeout_ms=section.poll_timeout_ms,
        n_workers=section.n_workers,
        refresh_ms=section.refresh_ms,
        http=replace(
            http_options("prometheus", section, PROMETHEUS_HTTP, n_silences=2), max_answer_bytes=section.max_size_bytes
        ),
        credentials=credentials,
    )
    return Source(PrometheusCollector(options))


def _remote_write(settings: Settings, rank: int) -> Source:
    options = remote_write_options(settings)
    secrets_of(settings.sources.remote_write)
    return Source(RemoteWriteCollector(replace(options, source_rank=rank)))


def remote_write_options(settings: Settings) -> RemoteWriteOptions:
    """Of the source and its receiver, but for the rank; raises ConfigError."""
    section = settings.sources.remote_write
    return RemoteWriteOptions(
        folder=settings.store.directory / "remote-write",
        readings=_readings(section, settings.load.metric, "remote_write"),
        cluster=section.cluster,
        step_ms=section.scrape_interval_ms,
        settle_ms=section.lateness_ms,
        silence_ms=settings.sources.silence_timeout_ms,
        hosts=settings.sources.hosts,
    )


def _readings(
    section: PrometheusSource | RemoteWriteSource, load_metric: str, source: str = "prometheus"
) -> tuple[Reading, ...]:
    """The chosen metrics, that of the load among them where it is one; raises ConfigError for one that is none."""
    known = {
        **READINGS,
        **{
            name: Reading(name, Kind(more.kind), more.metric, more.labels, more.factor, more.unit)
            for name, more in section.more_metrics.items()
        },
    }
    if unknown := [name for name in section.metrics if name not in known]:
        remedy = did_you_mean(unknown[0], known) or "others are described in more_metrics"
        expected = f"names of {', '.join(known)}"
        raise ConfigError(
            "configuration", (ConfigProblem(f"sources.{source}.metrics", repr(unknown[0]), expected, remedy),)
        )
    chosen = [*(section.metrics or PROMETHEUS_METRICS), *section.more_metrics]
    if load_metric in known:
        chosen.append(load_metric)
    return tuple(known[name] for name in dict.fromkeys(chosen))


BUILDERS: Mapping[str, Callable[[Settings, int], Source]] = {
    "job_history": _of_folder("job_history", JobHistoryOptions, JobHistoryCollector, ("directories", "roots")),
    "container_log": _of_folder("container_log", ContainerLogOptions, ContainerLogCollector),
    "daemon_log": _of_folder("daemon_log", DaemonLogOptions, DaemonLogCollector),
    "hdfs_audit": _of_folder("hdfs_audit", HdfsAuditOptions, HdfsAuditCollector),
    "job_client_log": _of_folder("job_client_log", JobClientLogOptions, JobClientLogCollector),
    "spark_events": _of_folder("spark_events", SparkEventsOptions, SparkEventsCollector),
    "yarn_rest": _yarn_rest,
    "yarn_timeline": _yarn_timeline,
    "ganglia_rrd": _ganglia_rrd,
    "gmond": _gmond,
    "gmond_udp": _gmond_udp,
    "jmx": _jmx,
    "prometheus": _prometheus,
    "remote_write": _remote_write,
}
"""Of every live source of `collectors.sources`."""
