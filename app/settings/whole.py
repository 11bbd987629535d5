"""The whole configuration; `app.config` reads it from config.yaml and the environment.

A field `interval_ms` is written `interval` in the file, with its unit: `interval: 15 s`.
"""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.settings.alerting import Alerting
from app.settings.dashboard import DashboardSettings
from app.settings.engine import EngineLimits
from app.settings.listening import ApiSettings, Web
from app.settings.load import Load
from app.settings.log import Log
from app.settings.queries import Queries
from app.settings.replay import Demo, Replay
from app.settings.sources import Sources
from app.settings.spark import SparkSettings
from app.settings.store import StoreSettings

ENV_PREFIX = "CLUSTERCEP__"

EVENT_STORE = "event-store"
"""The folder below the store's where history is kept unless `spark.store` says otherwise."""


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


__all__ = ["ENV_PREFIX", "EVENT_STORE", "Settings"]
