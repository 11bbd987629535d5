"""Of a Spark application's settings the chosen ones, and nothing else.

The environment of an application has secrets in it, whatever Spark redacts. So settings are named one by one, and each
is kept only where it has the form that it must have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_NUMBER = re.compile(r"[0-9]{1,9}")
_RATIO = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}")
_SIZE = re.compile(r"[0-9]{1,15}(?:[kmgtpKMGTP]?[bB]?)")
_TIME = re.compile(r"[0-9]{1,12}(?:us|ms|s|m|min|h|d)?")
_FLAG = re.compile(r"true|false", re.IGNORECASE)

SETTINGS: Mapping[str, re.Pattern[str]] = {
    "spark.executor.memory": _SIZE,
    "spark.executor.memoryOverhead": _SIZE,
    "spark.executor.cores": _NUMBER,
    "spark.executor.instances": _NUMBER,
    "spark.memory.fraction": _RATIO,
    "spark.memory.storageFraction": _RATIO,
    "spark.sql.shuffle.partitions": _NUMBER,
    "spark.default.parallelism": _NUMBER,
    "spark.sql.files.maxPartitionBytes": _SIZE,
    "spark.sql.adaptive.enabled": _FLAG,
    "spark.sql.adaptive.skewJoin.enabled": _FLAG,
    "spark.dynamicAllocation.enabled": _FLAG,
    "spark.dynamicAllocation.initialExecutors": _NUMBER,
    "spark.dynamicAllocation.maxExecutors": _NUMBER,
    "spark.dynamicAllocation.executorIdleTimeout": _TIME,
    "spark.shuffle.service.enabled": _FLAG,
    "spark.speculation": _FLAG,
    "spark.speculation.multiplier": _RATIO,
    "spark.speculation.quantile": _RATIO,
    "spark.excludeOnFailure.enabled": _FLAG,
    "spark.task.maxFailures": _NUMBER,
    "spark.stage.maxConsecutiveAttempts": _NUMBER,
    "spark.locality.wait": _TIME,
}
"""Setting -> the form of its value."""


def chosen_settings(properties: Mapping[str, object]) -> str:
    """Those of SETTINGS that are set, as JSON, in the order of their names."""
    kept = {}
    for name, form in SETTINGS.items():
        value = properties.get(name)
        if isinstance(value, str) and form.fullmatch(value.strip()):
            kept[name] = value.strip()
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


__all__ = ["SETTINGS", "chosen_settings"]
