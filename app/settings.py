"""The settings as frozen typed models; `app.config` reads them from config.yaml and the environment.

A field `interval_ms` is written `interval` in the file, with its unit: `interval: 15 s`.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.alerting.dispatch.settings import InhibitRuleSettings, RouteSettings, TimeIntervalSettings
from app.alerting.people import Role
from app.alerting.receivers.settings import AnyReceiver, Receiver, WebhookReceiver
from app.anchored_path import AnchoredPath, anchored, base_directory
from app.durations import DurationMs, SignedDurationMs, SizeBytes
from app.section import Section
from app.severity import Severity
from collectors.sources import LIVE_SOURCES
from collectors.time_units import DAY_MS, HOUR_MS

ENV_PREFIX = "CLUSTERCEP__"

EVENT_STORE = "event-store"
"""The folder below the store's where history is kept unless `spark.store` says otherwise."""

MAX_SKEW_MS = HOUR_MS
MAX_OFFSET_MS = DAY_MS
"""A clock that is further off is set, not bounded."""


def _live_source(name: str) -> str:
    if name not in LIVE_SOURCES:
        known = ", ".join(map(repr, LIVE_SOURCES))
        close = difflib.get_close_matches(name, LIVE_SOURCES, n=1, cutoff=0.6)
        nearest = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"there is no source {name!r}; expected one of {known}{nearest}")
    return name


SourceName = Annotated[str, AfterValidator(_live_source)]


class Source(Section):
    """What every source has."""

    enabled: bool = False
    interval_ms: DurationMs = Field(default=15_000, ge=100)
    lateness_ms: DurationMs = Field(default=5_000, ge=0)


class GangliaRrdSource(Source):
    """Round-robin databases as gmetad writes them."""

    directory: AnchoredPath | None = None
    metrics: tuple[str, ...] = ()
    backfill_ms: DurationMs = Field(default=HOUR_MS, ge=0)
    silent_ms: DurationMs = Field(default=120_000, ge=0)
    daemon: str | None = Field(default=None, min_length=1, max_length=300)


class GmondSource(Source):
    """gmond, or gmetad, asked for their XML."""

    interval_ms: DurationMs = Field(default=15_000, ge=1_000)
    addresses: tuple[str, ...] = Field(default=(), max_length=1_000)
    metrics: tuple[str, ...] = ()
    lateness_ms: DurationMs = Field(default=20_000, ge=0)
    hold_ms: DurationMs = Field(default=180_000, ge=1_000)
    silent_ms: DurationMs = Field(default=120_000, ge=0)
    timeout_ms: DurationMs = Field(default=10_000, ge=100)
    poll_timeout_ms: DurationMs = Field(default=60_000, ge=1_000)
    n_workers: int = Field(default=8, ge=1, le=64)
    max_size_bytes: SizeBytes = Field(default=2**26, ge=1_024, le=2**28)

    @field_validator("interval_ms")
    @classmethod
    def _within_a_gap(cls, interval_ms: int) -> int:
        return _told_in_time(interval_ms)


class JobHistorySource(Source):
    """Folders in which the JobHistoryServer leaves `.jhist` files."""

    directories: tuple[AnchoredPath, ...] = ()
    quiet_ms: DurationMs = Field(default=HOUR_MS, ge=0)
    hold_future: bool = True
    counters: bool = False


class ContainerLogSource(Source):
    """Container logs below a folder."""

    directory: AnchoredPath | None = None
    layout: str = "{host}/{application}/{container}/{role}"
    roles: tuple[str, ...] = Field(default=("syslog", "syslog.shuffle"), min_length=1)
    host: str | None = None
    time_zone: str = "UTC"
    hold_ms: DurationMs = Field(default=60_000, ge=0)
    abandon_ms: DurationMs = Field(default=600_000, ge=0)
    revisit_ms: DurationMs = Field(default=600_000, ge=0)
    hold_future: bool = True


class DaemonLogSource(Source):
    """Logs of ResourceManagers, NodeManagers, NameNodes and DataNodes in one folder."""

    directory: AnchoredPath | None = None
    name_pattern: str | None = None
    client_trace: bool = True
    time_zone: str = "UTC"
    hold_future: bool = True


class HdfsAuditSource(Source):
    """Audit logs of NameNodes in one folder."""

    directory: AnchoredPath | None = None
    host: str | None = None
    name_pattern: str | None = None
    time_zone: str = "UTC"
    hold_future: bool = True


class JobClientLogSource(Source):
    """Files with what clients of MapReduce jobs print."""

    directory: AnchoredPath | None = None
    host: str | None = None
    name_pattern: str | None = None
    time_zone: str = "UTC"
    hold_ms: DurationMs = Field(default=10_000, ge=0)
    abandon_ms: DurationMs = Field(default=12 * HOUR_MS, ge=0)
    revisit_ms: DurationMs = Field(default=60_000, ge=0)
    hold_future: bool = True


class SparkEventsSource(Source):
    """Event logs of Spark applications in one folder."""

    directory: AnchoredPath | None = None
    quiet_ms: DurationMs = Field(default=HOUR_MS, ge=0)
    hold_future: bool = True


class KerberosSettings(Section):
    """Who asks servers that want tickets."""

    principal: str = Field(pattern=r"^[^\s@]+@[^\s@]+$", max_length=300)
    keytab_file: AnchoredPath
    mutual_authentication: bool = True


class HttpSource(Source):
    """One that asks servers over HTTP."""

    timeout_ms: DurationMs = Field(default=10_000, ge=100)
    poll_timeout_ms: DurationMs = Field(default=60_000, ge=100)
    verify_tls: bool = True
    ca_file: AnchoredPath | None = None
    cert_file: AnchoredPath | None = None
    """A certificate to show, PEM."""
    key_file: AnchoredPath | None = None
    """Its key; None: it stands in `cert_file` too."""
    kerberos: KerberosSettings | None = None

    @model_validator(mode="after")
    def _certificate_with_key(self) -> Self:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file without cert_file; expected the certificate, too")
        return self


class YarnRestSource(HttpSource):
    """REST interfaces of ResourceManager, MapReduce AM (through the proxy) and JobHistoryServer."""

    resource_managers: tuple[str, ...] = ("http://127.0.0.1:8088",)
    history_server: str = "http://127.0.0.1:19888"
    n_attempts: int = Field(default=3, ge=1, le=10)
    lookback_ms: DurationMs = Field(default=0, ge=0)
    history_wait_ms: DurationMs = Field(default=180_000, ge=0)
    sample_counters: bool = False
    master_timeout_ms: DurationMs = Field(default=30_000, ge=100)
    n_workers: int = Field(default=4, ge=1, le=32)

    @model_validator(mode="before")
    @classmethod
    def _earlier_key(cls, section: object) -> object:
        """`certificates` is what `ca_file` was called."""
        if isinstance(section, dict) and "certificates" in section and "ca_file" not in section:
            return {"ca_file" if key == "certificates" else key: value for key, value in section.items()}
        return section


class YarnTimelineSource(HttpSource):
    """YARN's timeline server, asked for applications that have ended."""

    server: str = "http://127.0.0.1:8188"
    interval_ms: DurationMs = Field(default=30_000, ge=1_000)
    lateness_ms: DurationMs = Field(default=10_000, ge=0)
    lookback_ms: DurationMs = Field(default=0, ge=0)
    containers: bool = True
    settle_ms: DurationMs = Field(default=30_000, ge=0)


MAX_DAEMON_INTERVAL_MS = 90_000
"""Half of the GROUP_GAP of the queries over daemons: one poll may fail."""


def _told_in_time(interval_ms: int) -> int:
    if interval_ms > MAX_DAEMON_INTERVAL_MS:
        raise ValueError(
            f"more than {MAX_DAEMON_INTERVAL_MS // 1000} s; expected at most that: "
            "alerts about daemons end when nothing was told for 3 minutes, so they would end and begin again"
        )
    return interval_ms


class JmxSource(HttpSource):
    """Daemons of Hadoop over the `/jmx` of their web servers."""

    interval_ms: DurationMs = Field(default=30_000, ge=1_000)
    name_nodes: tuple[str, ...] = ()
    data_nodes: tuple[str, ...] = ()
    resource_managers: tuple[str, ...] = ()
    node_managers: tuple[str, ...] = ()
    history_servers: tuple[str, ...] = ()
    host_metrics: bool = False
    daemon_timeout_ms: DurationMs = Field(default=20_000, ge=100)
    n_workers: int = Field(default=8, ge=1, le=64)

    @field_validator("interval_ms")
    @classmethod
    def _within_a_gap(cls, interval_ms: int) -> int:
        return _told_in_time(interval_ms)


class BasicAuth(Section):
    """A user and the file of the password."""

    username: str = Field(min_length=1, max_length=200)
    password_file: AnchoredPath


class ChosenMetric(Section):
    """A further metric of exporters."""

    metric: str = Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$", max_length=200)
    labels: dict[str, str] = Field(default_factory=dict, max_length=20)
    kind: Literal["gauge", "rate"] = "gauge"
    factor: float = Field(default=1.0, allow_inf_nan=False)
    unit: str | None = Field(default=None, max_length=40)


class PrometheusSource(HttpSource):
    """Exporters of Prometheus, scraped."""

    interval_ms: DurationMs = Field(default=15_000, ge=1_000)
    targets: tuple[str, ...] = ()
    file_sd: tuple[AnchoredPath, ...] = ()
    http_sd: tuple[str, ...] = ()
    n_workers: int = Field(default=8, ge=1, le=64)
    refresh_ms: DurationMs = Field(default=60_000, ge=1_000)
    scheme: Literal["http", "https"] = "http"
    metrics_path: str = Field(default="/metrics", pattern="^/", max_length=500)
    cluster: str = Field(default="default", min_length=1, max_length=100)
    metrics: tuple[str, ...] = ()
    more_metrics: dict[str, ChosenMetric] = Field(default_factory=dict, max_length=1_000)
    max_size_bytes: SizeBytes = Field(default=2**24, ge=1_024, le=2**28)
    bearer_token_file: AnchoredPath | None = None
    basic_auth: BasicAuth | None = None

    @field_validator("interval_ms")
    @classmethod
    def _within_a_gap(cls, interval_ms: int) -> int:
        return _told_in_time(interval_ms)

    @field_validator("more_metrics")
    @classmethod
    def _names_of_metrics(cls, more: dict[str, ChosenMetric]) -> dict[str, ChosenMetric]:
        for name in more:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,99}", name):
                raise ValueError(f"{name[:100]!r}: expected a metric's name: letters, digits, _, ., : and -")
        return more


def _is_loopback(address: str) -> bool:
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class RemoteWriteSource(Source):
    """A receiver of what Prometheus servers send (remote write 1.0)."""

    interval_ms: DurationMs = Field(default=5_000, ge=1_000)
    lateness_ms: DurationMs = Field(default=30_000, ge=1_000)
    address: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=9479, ge=0, le=65_535)
    token_file: AnchoredPath | None = None
    cert_file: AnchoredPath | None = None
    key_file: AnchoredPath | None = None
    scrape_interval_ms: DurationMs = Field(default=15_000, ge=1_000)
    cluster: str = Field(default="default", min_length=1, max_length=100)
    metrics: tuple[str, ...] = ()
    more_metrics: dict[str, ChosenMetric] = Field(default_factory=dict, max_length=1_000)
    max_body_bytes: SizeBytes = Field(default=2**22, ge=1_024, le=2**26)
    max_unpacked_bytes: SizeBytes = Field(default=2**25, ge=1_024, le=2**28)
    spool_size_bytes: SizeBytes = Field(default=2**30, ge=2**20)
    n_connections: int = Field(default=32, ge=1, le=1_000)

    @model_validator(mode="after")
    def _not_open_to_others(self) -> RemoteWriteSource:
        if not _is_loopback(self.address) and (self.token_file is None or self.cert_file is None):
            raise ValueError(
                f"address {self.address!r} is not loopback: expected token_file and cert_file, too, as others could "
                "write what they like and read what is sent"
            )
        return self


class GmondUdpSource(Source):
    """A receiver of what gmonds and gmetric send."""

    interval_ms: DurationMs = Field(default=5_000, ge=1_000)
    address: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8649, ge=0, le=65_535)
    allow: tuple[str, ...] = Field(default=(), max_length=10_000)
    cluster: str = Field(default="default", min_length=1, max_length=100)
    metrics: tuple[str, ...] = ()
    hold_ms: DurationMs = Field(default=180_000, ge=1_000)

    @field_validator("interval_ms")
    @classmethod
    def _within_a_gap(cls, interval_ms: int) -> int:
        return _told_in_time(interval_ms)

    @model_validator(mode="after")
    def _not_open_to_others(self) -> GmondUdpSource:
        if not _is_loopback(self.address) and not self.allow:
            raise ValueError(
                f"address {self.address!r} is not loopback: expected `allow` with the addresses or networks of "
                "senders, as the protocol has no authentication"
            )
        return self


class ClockSkew(Section):
    """By how much clocks may be off: one unknown offset per clock, shared by all its events; and known offsets."""

    default_ms: DurationMs = Field(default=0, ge=0, le=MAX_SKEW_MS)
    clocks: dict[str, Annotated[DurationMs, Field(ge=0, le=MAX_SKEW_MS)]] = Field(default_factory=dict)
    offsets: dict[str, Annotated[SignedDurationMs, Field(ge=-MAX_OFFSET_MS, le=MAX_OFFSET_MS)]] = Field(
        default_factory=dict
    )
    """By clock how far it is ahead (negative: behind); its events are set right by that."""


class Sources(Section):
    """Where events come from."""

    silence_timeout_ms: DurationMs = Field(default=300_000, ge=1_000)
    max_waiting_events: int = Field(default=2_000_000, ge=1)
    """For a source that is behind; when there are more, the others go on without it."""
    remember_ids_ms: DurationMs = Field(default=172_800_000, ge=60_000)
    precedence: tuple[SourceName, ...] = LIVE_SOURCES
    hosts: dict[str, str] = Field(default_factory=dict)
    clock_skew: ClockSkew = Field(default_factory=ClockSkew)
    ganglia_rrd: GangliaRrdSource = Field(default_factory=GangliaRrdSource)
    gmond: GmondSource = Field(default_factory=GmondSource)
    gmond_udp: GmondUdpSource = Field(default_factory=GmondUdpSource)
    job_history: JobHistorySource = Field(default_factory=JobHistorySource)
    container_log: ContainerLogSource = Field(default_factory=ContainerLogSource)
    daemon_log: DaemonLogSource = Field(default_factory=DaemonLogSource)
    hdfs_audit: HdfsAuditSource = Field(default_factory=HdfsAuditSource)
    job_client_log: JobClientLogSource = Field(default_factory=JobClientLogSource)
    spark_events: SparkEventsSource = Field(default_factory=SparkEventsSource)
    yarn_rest: YarnRestSource = Field(default_factory=YarnRestSource)
    yarn_timeline: YarnTimelineSource = Field(default_factory=YarnTimelineSource)
    jmx: JmxSource = Field(default_factory=JmxSource)
    prometheus: PrometheusSource = Field(default_factory=PrometheusSource)
    remote_write: RemoteWriteSource = Field(default_factory=RemoteWriteSource)

    @model_validator(mode="after")
    def _check_precedence(self) -> Sources:
        if len(set(self.precedence)) != len(self.precedence):
            raise ValueError("precedence names a source twice; expected each at most once")
        return self


class Load(Section):
    """How LoadStd, Balance and Imbalance are derived from Metric."""

    metric: str = "cpu_user"
    busy_percent: float = Field(default=20.0, ge=0)
    low_ratio: float = Field(default=0.2, ge=0, le=1)
    high_ratio: float = Field(default=0.8, ge=0, le=1)


ParameterValue = bool | int | float | str


class Queries(Section):
    """Which queries run, with which parameters, and how urgent their alerts are."""

    directory: AnchoredPath = Field(default_factory=lambda: anchored(Path("queries")))
    disabled: tuple[str, ...] = ()
    parameters: dict[str, dict[str, ParameterValue]] = Field(default_factory=dict)
    severities: dict[str, Severity] = Field(default_factory=dict)
    aggregates: tuple[str, ...] = ()


class EngineLimits(Section):
    """What one query may cost, and how many cores evaluate them."""

    max_rows: int = Field(default=100_000, ge=1)
    work_budget: int = Field(default=2_000_000, ge=1)
    threads: int = Field(default=1, ge=1, le=256)
    trend_overlap: int = Field(default=6, ge=0, le=10)
    latency_bound_ms: DurationMs | None = Field(default=None, ge=10, le=DAY_MS)
    shedding_model: AnchoredPath | None = None


class Alerting(Section):
    """How matches become alerts and who is told."""

    group_gap_ms: DurationMs = Field(default=60_000, ge=0)
    max_evidence_events: int = Field(default=200, ge=1)
    max_age_ms: DurationMs = Field(default=DAY_MS, ge=0)
    external_url: str = "http://127.0.0.1:8501"
    external_labels: dict[str, str] = Field(default_factory=dict)
    links: dict[str, str] = Field(default_factory=dict, max_length=10)
    runbook_url: str | None = None
    receivers: dict[str, AnyReceiver] = Field(default_factory=dict)
    route: RouteSettings | None = None
    inhibit_rules: tuple[InhibitRuleSettings, ...] = ()
    time_intervals: tuple[TimeIntervalSettings, ...] = ()
    mute_time_intervals: tuple[TimeIntervalSettings, ...] = ()
    """What `time_intervals` was called in Alertmanager."""

    @property
    def all_time_intervals(self) -> tuple[TimeIntervalSettings, ...]:
        """Under either name."""
        return (*self.time_intervals, *self.mute_time_intervals)

    @model_validator(mode="after")
    def _tree(self) -> Alerting:
        if self.route is None:
            if self.inhibit_rules:
                raise ValueError("inhibit_rules without a route have no effect; expected a route, too")
            return self
        names = [interval.name for interval in self.all_time_intervals]
        if len(set(names)) != len(names):
            raise ValueError("time_intervals: a name is given twice; expected each once")
        problems = [*_root_problems(self.route), *_route_problems(self.route, "route", self.receivers, names)]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @field_validator("links")
    @classmethod
    def _names_of_links(cls, links: dict[str, str]) -> dict[str, str]:
        for name, template in links.items():
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", name) or name == "runbook":
                raise ValueError(f"{name}: expected a link's name: letters, digits and _; the runbook has runbook_url")
            _check_link(template, f"{name}: ")
        return links

    @field_validator("runbook_url")
    @classmethod
    def _web_page(cls, template: str | None) -> str | None:
        if template is not None:
            _check_link(template, "")
        return template

    @field_validator("external_labels")
    @classmethod
    def _names_of_labels(cls, labels: dict[str, str]) -> dict[str, str]:
        for name, value in labels.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in ("alertname", "severity"):
                raise ValueError(
                    f"{name}: expected a label's name: letters, digits and _, not alertname or severity, which are the "
                    "query's own"
                )
            if not value or len(value) > 200 or not value.isprintable():
                raise ValueError(f"{name}: found {value[:50]!r}; expected one line of 1 to 200 characters")
        return labels


def _check_link(template: str, place: str) -> None:
    if not template.startswith(("http://", "https://")) or len(template) > 1_000 or not template.isprintable():
        raise ValueError(
            f"{place}found {template[:80]!r}; expected http://... or https://..., with {{host}} and the like"
        )


def _root_problems(root: RouteSettings) -> Iterator[str]:
    if root.receiver is None:
        yield "route.receiver: found nothing; expected the receiver of what no other route matches"
    given = {
        "matchers": root.matchers,
        "continue": root.continue_,
        "mute_time_intervals": root.mute_time_intervals,
        "active_time_intervals": root.active_time_intervals,
    }
    for name, value in given.items():
        if value:
            yield f"route.{name}: expected none, since the root takes every alert; put it into one of its routes"


def _route_problems(
    route: RouteSettings,
    key: str,
    receivers: Collection[str],
    intervals: Collection[str],
    above: tuple[str | None, int | None] = (None, None),
) -> Iterator[str]:
    """`above`: escalate_to and escalate_after of the routes above."""
    escalate_to, after_ms = route.escalate_to or above[0], route.escalate_after_ms or above[1]
    if (escalate_to is None) != (after_ms is None):
        given, lacking = ("escalate_to", "escalate_after") if after_ms is None else ("escalate_after", "escalate_to")
        yield f"{key}.{given}: found it without {lacking}; expected both: the second receiver, and after how long"
    if route.receiver is not None and route.receiver not in receivers:
        yield f"{key}.receiver: {_unknown(route.receiver, 'receiver', receivers)}"
    if route.escalate_to is not None and route.escalate_to not in receivers:
        yield f"{key}.escalate_to: {_unknown(route.escalate_to, 'receiver', receivers)}"
    for kind in ("mute_time_intervals", "active_time_intervals"):
        for name in getattr(route, kind):
            if name not in intervals:
                yield f"{key}.{kind}: {_unknown(name, 'time interval', intervals)}"
    for number, child in enumerate(route.routes):
        yield from _route_problems(
            child, f"{key}.routes.{number}", receivers, intervals, (escalate_to, after_ms) if after_ms else above
        )


def _unknown(found: str, kind: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(found, sorted(known), n=1, cutoff=0.6)
    nearest = f"; did you mean {close[0]!r}?" if close else ""
    expected = f"one of {', '.join(sorted(known))}" if known else f"{kind}s: there are none"
    return f"there is no {kind} {found!r}; expected {expected}{nearest}"


class Retention(Section):
    """How long the store keeps what is over."""

    alerts_ms: DurationMs = Field(default=31_536_000_000, ge=0)
    reports_ms: DurationMs = Field(default=31_536_000_000, ge=0)
    evidence_ms: DurationMs = Field(default=7_776_000_000, ge=0)
    notifications_ms: DurationMs = Field(default=2_592_000_000, ge=0)
    late_events_ms: DurationMs = Field(default=604_800_000, ge=0)
    problems_ms: DurationMs = Field(default=2_592_000_000, ge=0)
    events_ms: DurationMs = Field(default=604_800_000, ge=0)
    events_size_bytes: SizeBytes = Field(default=20 * 2**30, ge=0)


class StoreSettings(Section):
    """Where alerts, reports and checkpoints are kept."""

    url: SecretStr | None = None
    url_file: AnchoredPath | None = None
    directory: AnchoredPath = Field(default_factory=lambda: anchored(Path("data")))
    retention: Retention = Field(default_factory=Retention)


def _anchored_url(text: str | None) -> str | None:
    """A plain path starts at the folder of the configuration file; a URL is left as it is."""
    return text if text is None or "://" in text else str(anchored(Path(text)).absolute())


class SparkSettings(Section):
    """Where the jobs on Spark run, and where the events are that they read."""

    master: str | None = Field(default=None, min_length=1)
    store: Annotated[str | None, AfterValidator(_anchored_url)] = Field(default=None, min_length=1)
    conf: dict[str, str] = Field(default_factory=dict)
    kafka_config: AnchoredPath | None = None
    small_query_events: int = Field(default=500_000, ge=0)
    small_ingest_bytes: SizeBytes = Field(default=64 * 2**20, ge=0)

    @field_validator("conf")
    @classmethod
    def _names_of_spark(cls, conf: dict[str, str]) -> dict[str, str]:
        for name in conf:
            if not name.startswith("spark."):
                raise ValueError(f"{name}: expected a setting of Spark, whose names start with spark.")
        return conf


class ProxySettings(Section):
    """A reverse proxy that tells who asks: by a header that counts only beside the secret that it alone knows."""

    user_header: str = Field(default="X-Forwarded-User", pattern=r"^[A-Za-z0-9-]{1,100}$")
    secret_header: str = Field(default="X-Clustercep-Secret", pattern=r"^[A-Za-z0-9-]{1,100}$")
    secret_file: AnchoredPath


class DashboardSettings(Section):
    """Where the dashboard listens, who may see it and what its queries may cost."""

    address: str = "127.0.0.1"
    port: int = Field(default=8501, ge=1, le=65_535)
    base_path: str = Field(default="", pattern=r"^(/?[A-Za-z0-9._~-]+)*/?$", max_length=200)
    allowed_hosts: tuple[str, ...] = ()
    login: bool = False
    anonymous_role: Role | None = None
    roles_claim: str | None = Field(default=None, min_length=1, max_length=100)
    claim_roles: dict[str, Role] = Field(default_factory=dict)
    roles_file: AnchoredPath | None = None
    proxy: ProxySettings | None = None
    links: dict[str, str] = Field(default_factory=dict)
    straggler_queries: tuple[str, ...] = ("*straggler*",)
    query_timeout_ms: DurationMs = Field(default=120_000, ge=1_000)
    max_query_events: int = Field(default=5_000_000, ge=1)
    history_queries: int = Field(default=1, ge=0, le=100)
    history_timeout_ms: DurationMs = Field(default=1_800_000, ge=1_000)

    @model_validator(mode="after")
    def _who_gives_roles(self) -> DashboardSettings:
        if (self.roles_claim is None) != (not self.claim_roles):
            raise ValueError("roles_claim and claim_roles go together; expected both, or neither")
        if self.login and self.proxy is not None:
            raise ValueError("login and proxy both tell who somebody is; expected one of them")
        return self

    @field_validator("links")
    @classmethod
    def _templates(cls, links: dict[str, str]) -> dict[str, str]:
        for name, template in links.items():
            if not template.startswith(("http://", "https://")):
                raise ValueError(f"{name}: expected a URL that starts with http:// or https://")
            unknown = set(re.findall(r"\{([^{}]*)\}", template)) - {"job_id", "application_id"}
            if unknown:
                found = ", ".join(sorted(unknown))
                raise ValueError(f"{name} names {{{found}}}; expected {{job_id}} and {{application_id}} only")
        return links


class Replay(Section):
    """How recordings are replayed."""

    speed: float | Literal["max"] = "max"
    max_files: int = Field(default=200_000, ge=1)
    max_size_bytes: SizeBytes = Field(default=2**31, ge=1)


class Demo(Section):
    """What `clustercep demo` replays, and where it leaves its store."""

    recording: AnchoredPath = Field(
        default_factory=lambda: anchored(Path("tests/fixtures/recording/minicluster.tar.xz"))
    )
    directory: AnchoredPath = Field(default_factory=lambda: anchored(Path("build/demo")))
    parameters: dict[str, dict[str, ParameterValue]] = Field(default_factory=dict)


def _not_yes_or_no(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


Number = Annotated[int, BeforeValidator(_not_yes_or_no)]
"""YAML reads `no` as false, which would pass for 0."""


class Web(Section):
    """Where the live process answers: health, readiness, reload, metrics."""

    enabled: bool = True
    address: str = Field(default="127.0.0.1", min_length=1)
    port: Number = Field(default=9477, ge=0, le=65_535)
    allowed_hosts: tuple[str, ...] = ()


class ApiSettings(Section):
    """Where `clustercep api` answers, and who may ask."""

    address: str = Field(default="127.0.0.1", min_length=1)
    port: Number = Field(default=9478, ge=0, le=65_535)
    allowed_hosts: tuple[str, ...] = ()
    tokens_file: AnchoredPath | None = None
    cert_file: AnchoredPath | None = None
    key_file: AnchoredPath | None = None

    @model_validator(mode="after")
    def _key_of_a_certificate(self) -> ApiSettings:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file without cert_file; expected the certificate, too")
        return self


class Log(Section):
    """What the process writes about itself."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


class Settings(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        hide_input_in_errors=True,
        validate_default=True,
    )

    sources: Sources = Field(default_factory=Sources)
    load: Load = Field(default_factory=Load)
    queries: Queries = Field(default_factory=Queries)
    engine: EngineLimits = Field(default_factory=EngineLimits)
    alerting: Alerting = Field(default_factory=Alerting)
    store: StoreSettings = Field(default_factory=StoreSettings)
    spark: SparkSettings = Field(default_factory=SparkSettings)
    dashboard: DashboardSettings = Field(default_factory=DashboardSettings)
    replay: Replay = Field(default_factory=Replay)
    demo: Demo = Field(default_factory=Demo)
    web: Web = Field(default_factory=Web)
    api: ApiSettings = Field(default_factory=ApiSettings)
    log: Log = Field(default_factory=Log)

    @property
    def event_store_url(self) -> str:
        """Of the store that the jobs on Spark fill and read: any URL that Hadoop knows, or a path of this machine."""
        return self.spark.store or str(self.store.directory.absolute() / EVENT_STORE)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment goes before the file; nothing else is read."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


__all__ = ["AnyReceiver", "Receiver", "Severity", "WebhookReceiver", "base_directory"]
