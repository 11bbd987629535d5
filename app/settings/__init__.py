"""The settings as frozen typed models: a module for each section of config.yaml, the sources by how they are read.

`app.config` reads them from config.yaml and the environment; `whole.py` is the file as a whole.
"""

from __future__ import annotations

from app.alerting.receivers.settings import AnyReceiver, Receiver, WebhookReceiver
from app.anchored_path import base_directory
from app.settings.alerting import Alerting
from app.settings.asking_sources import (
    BasicAuth,
    ChosenMetric,
    GmondSource,
    JmxSource,
    PrometheusSource,
    YarnRestSource,
    YarnTimelineSource,
)
from app.settings.dashboard import DashboardSettings, ProxySettings
from app.settings.engine import EngineLimits
from app.settings.file_sources import (
    ContainerLogSource,
    DaemonLogSource,
    GangliaRrdSource,
    HdfsAuditSource,
    JobClientLogSource,
    JobHistorySource,
    SparkEventsSource,
)
from app.settings.listening import ApiSettings, Web
from app.settings.load import Load
from app.settings.log import Log
from app.settings.queries import ParameterValue, Queries
from app.settings.receiving_sources import GmondUdpSource, RemoteWriteSource
from app.settings.replay import Demo, Replay
from app.settings.source import MAX_DAEMON_INTERVAL_MS, HttpSource, KerberosSettings, Source
from app.settings.sources import MAX_OFFSET_MS, MAX_SKEW_MS, ClockSkew, SourceName, Sources
from app.settings.spark import SparkSettings
from app.settings.store import Retention, StoreSettings
from app.settings.whole import ENV_PREFIX, EVENT_STORE, Settings
from app.severity import Severity

__all__ = [
    "ENV_PREFIX",
    "EVENT_STORE",
    "MAX_DAEMON_INTERVAL_MS",
    "MAX_OFFSET_MS",
    "MAX_SKEW_MS",
    "Alerting",
    "AnyReceiver",
    "ApiSettings",
    "BasicAuth",
    "ChosenMetric",
    "ClockSkew",
    "ContainerLogSource",
    "DaemonLogSource",
    "DashboardSettings",
    "Demo",
    "EngineLimits",
    "GangliaRrdSource",
    "GmondSource",
    "GmondUdpSource",
    "HdfsAuditSource",
    "HttpSource",
    "JmxSource",
    "JobClientLogSource",
    "JobHistorySource",
    "KerberosSettings",
    "Load",
    "Log",
    "ParameterValue",
    "PrometheusSource",
    "ProxySettings",
    "Queries",
    "Receiver",
    "RemoteWriteSource",
    "Replay",
    "Retention",
    "Settings",
    "Severity",
    "Source",
    "SourceName",
    "Sources",
    "SparkEventsSource",
    "SparkSettings",
    "StoreSettings",
    "Web",
    "WebhookReceiver",
    "YarnRestSource",
    "YarnTimelineSource",
    "base_directory",
]
