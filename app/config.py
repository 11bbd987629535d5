"""config.yaml + environment -> frozen typed settings; every error names the key path, what was found and expected."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_settings import SettingsError

from app.alerting.receivers.settings import BY_KIND, SECRET_URLS, kind_of
from app.errors import ConfigError, ConfigProblem
from app.nearest_name import did_you_mean
from app.section import key_of
from app.settings import ENV_PREFIX, Settings, base_directory
from app.yaml_text import load_yaml
from collectors.printable import printable
from engine.event_types import lone_surrogate

DEFAULT_FILE = Path("config.yaml")
CONFIG_VARIABLE = "CLUSTERCEP_CONFIG"
MAX_CONFIG_BYTES = 2**20
MAX_SECRET_BYTES = 2**14

SECRET_KEYS = frozenset({"authorization", "routing_key", "api_key", "password"})
"""Keys that hold nothing but secrets: refused in the file, which ends up in version control and backups."""


def load_settings(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Read `path` (default: $CLUSTERCEP_CONFIG, else config.yaml) under the environment's overrides.

    Raises ConfigError with every problem found.
    """
    environment = os.environ if environment is None else environment
    path = path or Path(environment.get(CONFIG_VARIABLE, DEFAULT_FILE))
    raw = read_yaml(path)
    problems = [*_written_secrets(raw), *_unknown_variables(environment), *_no_unicode(environment)]
    token = base_directory.set(path.parent)
    try:
        settings = _build(raw, environment)
    except ValidationError as error:
        raise ConfigError(str(path), (*problems, *_problems_of(error, raw, environment))) from None
    except SettingsError as error:
        field = re.search(r'"(\w+)"', str(error))
        place = f"${ENV_PREFIX}{field[1].upper() if field else ''}..."
        problem = ConfigProblem(place, "a value that cannot be read", "JSON where a list or a whole section is given")
        raise ConfigError(str(path), (*problems, problem)) from None
    finally:
        base_directory.reset(token)
    if problems:
        raise ConfigError(str(path), tuple(problems))
    return settings


def read_yaml(path: Path) -> dict[str, Any]:
    """The file as a mapping; raises ConfigError with line and column when it is not one."""
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise ConfigError(str(path), (ConfigProblem("file", "more than 1 MiB", "a configuration file"),))
        raw = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        remedy = f"give its place with --config or ${CONFIG_VARIABLE}"
        raise ConfigError(str(path), (ConfigProblem("file", _reason(error), "a readable file", remedy),)) from None
    except yaml.YAMLError as error:
        raise ConfigError(str(path), (ConfigProblem("file", _yaml_reason(error), "YAML"),)) from None
    if raw is None:
        return {}
    if not isinstance(raw, dict) or not all(isinstance(key, str) for key in raw):
        raise ConfigError(str(path), (ConfigProblem("file", type(raw).__name__, "a mapping of sections"),))
    return raw


def read_secret(value: SecretStr | None, file: Path | None, key: str) -> SecretStr | None:
    """A secret given by value or by file; raises ConfigError naming the key, never the value."""
    if file is None:
        return value
    try:
        if file.stat().st_size > MAX_SECRET_BYTES:
            raise ConfigError(str(file), (ConfigProblem(key, "more than 16 kiB", "a file with the secret alone"),))
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(file), (ConfigProblem(key, _reason(error), "a readable file with the secret"),)) from None
    if not text or "\n" in text:
        found = "an empty file" if not text else "several lines"
        raise ConfigError(str(file), (ConfigProblem(key, found, "one line with the secret"),))
    return SecretStr(text)


def _build(raw: dict[str, Any], environment: Mapping[str, str]) -> Settings:
    """Settings() reads os.environ itself; a given mapping takes its place for the time of the call."""
    if environment is os.environ:
        return Settings(**raw)
    before = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(environment)
        return Settings(**raw)
    finally:
        os.environ.clear()
        os.environ.update(before)


def _written_secrets(node: Any, place: tuple[str, ...] = ()) -> Iterator[ConfigProblem]:
    if isinstance(node, dict):
        for key, value in node.items():
            here = (*place, str(key))
            if value is not None and (key in SECRET_KEYS or (key == "url" and str(node.get("kind")) in SECRET_URLS)):
                variable = ENV_PREFIX + "__".join(here).upper()
                remedy = f"use {key}_file, or the environment: {variable}"
                yield ConfigProblem(printable(".".join(here)), "a secret in the file", "none", remedy)
            else:
                yield from _written_secrets(value, here)


def _unknown_variables(environment: Mapping[str, str]) -> Iterator[ConfigProblem]:
    sections = sorted(Settings.model_fields)
    for name in sorted(environment):
        if not name.upper().startswith(ENV_PREFIX):
            continue
        section = name[len(ENV_PREFIX) :].split("__")[0].lower()
        if section not in sections:
            yield ConfigProblem(f"${name}", f"section {section!r}", _one_of(sections), did_you_mean(section, sections))


def _no_unicode(environment: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Variables of bytes that are not UTF-8, which Python carries as lone surrogates."""
    for name in sorted(environment):
        if name.upper().startswith(ENV_PREFIX) and lone_surrogate(name + environment[name]) is not None:
            yield ConfigProblem(f"${ascii(name)[1:-1]}", "bytes that are not UTF-8", "text in UTF-8")


def _problems_of(
    error: ValidationError, raw: dict[str, Any], environment: Mapping[str, str]
) -> Iterator[ConfigProblem]:
    items = error.errors(include_url=False)
    for item in items:
        if item["type"] == "too_short" and any(_is_inside(other["loc"], item["loc"]) for other in items):
            continue  # it lacks what is told to be wrong
        model, location = _without_kind(tuple(str(part) for part in item["loc"]))
        key = printable(".".join(location) or "file")
        if item["type"] == "extra_forbidden":
            known = sorted(_keys_at(*((model, location[3:-1]) if model else (Settings, location[:-1]))))
            remedy = _of_alertmanager(location) or did_you_mean(location[-1], known)
            variable = _variable_with(location, raw, environment)
            found = "an unknown key" if variable is None else f"an unknown key in ${printable(variable)}"
            yield ConfigProblem(key, found, _one_of(known), remedy)
        elif location == ("alerting", "receivers") and item["type"] == "dict_type":
            remedy = "in Alertmanager's list each name stands beside its services: docs/alerting.md"
            yield ConfigProblem(key, "no mapping", "a mapping of names, as in ops: {url_file: ops.url}", remedy)
        else:
            told, near = _expected(item["msg"]), _nearest_choice(item, raw, location, environment)
            if (own := _OF_A_PART.fullmatch(told)) is not None:
                yield ConfigProblem(f"{key}.{own[1]}" if own[1] else key, own[2], own[3], near)
            else:
                yield ConfigProblem(key, _found(raw, location, environment), told, near)


_OF_A_PART = re.compile(r"(?:([\w.]+): )?found (.*?); expected (.*)", re.DOTALL)
"""What a section says of a part of itself: `times: found '25:00'; expected ...`."""


def _is_inside(place: tuple[int | str, ...], outer: tuple[int | str, ...]) -> bool:
    return len(place) > len(outer) and place[: len(outer)] == outer


_PASTED = ("route", "inhibit_rules", "time_intervals", "mute_time_intervals", "receivers")
_SERVICES = {"msteams": "teams", "msteamsv2": "teams"}


def _of_alertmanager(location: tuple[str, ...]) -> str:
    """What becomes here of a key of Alertmanager's configuration."""
    if location[0] in _PASTED:
        return "it belongs below alerting: indent it by two"
    if location in (("global",), ("templates",)):
        return "Alertmanager's settings of services and its templates belong to receivers here: docs/alerting.md"
    service, is_service, _ = location[-1].partition("_configs")
    if location[:2] != ("alerting", "receivers") or not is_service:
        return ""
    kind = _SERVICES.get(service, service)
    return f"here it is kind: {kind if kind in BY_KIND else 'apprise'}, its settings beside it: docs/alerting.md"


def _nearest_choice(
    item: Mapping[str, Any], raw: dict[str, Any], location: tuple[str, ...], environment: Mapping[str, str]
) -> str:
    """Of one that can only be one of some: tells of what stands there no more than that it is near."""
    if item["type"] == "receiver_kind":
        section = _value_at(raw, location)
        return did_you_mean(kind_of(section), list(BY_KIND))
    if item["type"] not in ("literal_error", "enum"):
        return ""
    given = _of_environment(location, environment)
    found = _value_at(raw, location) if given is None else given[1]
    return did_you_mean(str(found), re.findall(r"'([^']+)'", str(item.get("ctx", {}).get("expected", ""))))


def _without_kind(location: tuple[str, ...]) -> tuple[type[BaseModel] | None, tuple[str, ...]]:
    """A place in the settings of a receiver has its kind behind its name: (model of the kind, place without it)."""
    if location[:2] != ("alerting", "receivers") or len(location) < 4 or location[3] not in BY_KIND:
        return None, location
    return BY_KIND[location[3]], (*location[:3], *location[4:])


def _found(raw: dict[str, Any], location: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """What stands at the place, shortened; nothing that could be a secret."""
    if any(part in SECRET_KEYS or part in {"url", "receivers"} for part in location):
        return "a value that is not shown, as it may hold a secret"
    given = _of_environment(location, environment)
    if given is not None:  # it goes before the file
        return f"{_shortened(given[1])} in ${given[0]}"
    node = _value_at(raw, location)
    if node is _NOTHING:
        return "nothing in the file (see the environment)"
    # A section holds others, and they may hold secrets.
    return "parts that do not fit together" if isinstance(node, dict) else _shortened(node)


_NOTHING = object()


def _value_at(raw: dict[str, Any], location: tuple[str, ...]) -> Any:
    node: Any = raw
    for part in location:
        if isinstance(node, dict) and part in node:
            node = node[part]
        elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            return _NOTHING
    return node


def _of_environment(location: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Name and value of the variable that sets a key; None: there is none."""
    variable = (ENV_PREFIX + "__".join(location)).upper()
    return next((pair for pair in environment.items() if pair[0].upper() == variable), None)


def _variable_with(location: tuple[str, ...], raw: dict[str, Any], environment: Mapping[str, str]) -> str | None:
    """The variable that brings a key which the file does not have: it sets the key, what is in it, or all around it."""
    if _value_at(raw, location) is not _NOTHING:
        return None
    place = (ENV_PREFIX + "__".join(location)).upper()
    names = (name for name in sorted(environment) if name.upper().startswith(ENV_PREFIX))
    return next(
        (n for n in names if f"{n.upper()}__".startswith(f"{place}__") or place.startswith(f"{n.upper()}__")), None
    )


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _expected(message: str) -> str:
    if message.startswith("Input should be a valid dictionary"):  # in words of Python
        return "a mapping, as in name: value"
    return message.removeprefix("Value error, ").removeprefix("Input should be ").removeprefix("expected ")


def _keys_at(model: type[BaseModel], location: tuple[str, ...]) -> set[str]:
    for part in location:
        field = next((f for n, f in model.model_fields.items() if part in (n, f.alias)), None)
        if field is None:
            continue  # the name of a receiver, or an index
        inner = _model_in(field.annotation)
        if inner is None:
            return set()
        model = inner
    return {field.alias or key_of(name) for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for m in map(_model_in, get_args(annotation)) if m is not None), None)


def _one_of(known: list[str]) -> str:
    return f"one of {', '.join(known)}" if known else "nothing here"


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "bytes that are not UTF-8"


def _yaml_reason(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    text = (getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)).removeprefix("found ")
    return f"{text} at line {mark.line + 1}, column {mark.column + 1}" if mark else str(text)
