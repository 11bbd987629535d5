"""Configuration: as shipped, from the environment, and every kind of mistake with its key path."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from app.alerting.receivers.settings import BY_KIND
from app.config import load_settings, read_secret
from app.durations import format_duration, format_size, format_time, parse_duration_ms, parse_size_bytes
from app.errors import ConfigError
from app.section import Section, key_of
from app.settings import Settings

SHIPPED = Path(__file__).parents[2] / "config.yaml"


def settings_of(folder: Path, text: str, **environment: str) -> Settings:
    path = folder / "config.yaml"
    path.write_text(text)
    return load_settings(path, environment)


def complaints(folder: Path, text: str, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        settings_of(folder, text, **environment)
    return str(caught.value)


def test_the_shipped_file_says_what_the_defaults_are() -> None:
    shipped = load_settings(SHIPPED, {})
    from_nothing = Settings()
    assert shipped.alerting == from_nothing.alerting
    assert shipped.load == from_nothing.load
    assert shipped.engine == from_nothing.engine
    assert shipped.store.retention == from_nothing.store.retention
    assert shipped.replay == from_nothing.replay
    assert shipped.sources.precedence == from_nothing.sources.precedence
    assert shipped.sources.yarn_rest.model_copy(update={"interval_ms": 15_000}) == from_nothing.sources.yarn_rest


def test_everything_that_listens_has_a_port_of_its_own() -> None:
    for of in (Settings(), load_settings(SHIPPED, {})):
        ports = [of.dashboard.port, of.web.port, of.api.port, of.sources.remote_write.port]
        assert len(set(ports)) == len(ports)


def test_the_shipped_file_mentions_every_key() -> None:
    text = SHIPPED.read_text()

    def missing(model: type[Section] | type[Settings]) -> list[str]:
        names = [key_of(name).rstrip("_") for name in model.model_fields]
        absent = [name for name in names if f"{name}:" not in text]
        for field in model.model_fields.values():
            if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
                absent += missing(field.annotation)
        return absent

    assert [key for key in missing(Settings) if key != "url_file"] == []
    text = text.replace("api_key_file:", "api_key: api_key_file:").replace(
        "routing_key_file:", "routing_key: routing_key_file:"
    )
    text = text.replace("password_file:", "password: password_file:").replace(
        "authorization_file:", "authorization: authorization_file:"
    )
    assert [key for kind in BY_KIND.values() for key in missing(kind)] == []


def test_paths_start_at_the_files_folder(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "queries: {directory: q}\nstore: {directory: /abs}")
    assert settings.queries.directory == tmp_path / "q"
    assert settings.store.directory == Path("/abs")
    assert settings_of(tmp_path, "").queries.directory == tmp_path / "queries"
    assert settings_of(tmp_path, "demo: {}").demo.directory == tmp_path / "build/demo"


def test_certificates_is_what_ca_file_was_called(tmp_path: Path) -> None:
    for key in ("certificates", "ca_file"):
        settings = settings_of(tmp_path, f"sources: {{yarn_rest: {{{key}: ca.pem}}}}")
        assert settings.sources.yarn_rest.ca_file == tmp_path / "ca.pem"
    assert "certificates" in complaints(tmp_path, "sources: {yarn_rest: {certificates: a, ca_file: b}}")


def test_the_event_store_is_a_folder_or_any_url(tmp_path: Path) -> None:
    assert settings_of(tmp_path, "store: {directory: kept}").event_store_url == str(tmp_path / "kept" / "event-store")
    assert settings_of(tmp_path, "spark: {store: events}").event_store_url == str(tmp_path / "events")
    assert settings_of(tmp_path, "spark: {store: 'hdfs://m:8020/e'}").event_store_url == "hdfs://m:8020/e"
    assert "driver.memory: expected a setting of Spark" in complaints(tmp_path, "spark: {conf: {driver.memory: 1g}}")


def test_the_environment_goes_first(tmp_path: Path) -> None:
    text = "sources: {yarn_rest: {interval: 10 s, lateness: 3 s}}\nlog: {level: debug}"
    settings = settings_of(
        tmp_path,
        text,
        CLUSTERCEP__SOURCES__YARN_REST__INTERVAL="20 s",
        CLUSTERCEP__ALERTING__RECEIVERS__OPS__URL="http://127.0.0.1:9/x",
        CLUSTERCEP__ALERTING__RECEIVERS__OPS__AUTHORIZATION="Bearer hunter2",
        UNRELATED="1",
    )
    assert (settings.sources.yarn_rest.interval_ms, settings.sources.yarn_rest.lateness_ms) == (20_000, 3_000)
    assert settings.log.level == "debug"
    ops = settings.alerting.receivers["ops"]
    assert ops.authorization is not None
    assert ops.authorization.get_secret_value() == "Bearer hunter2"
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sources: {yarn_rst: {}}", ["sources.yarn_rst", "an unknown key", "did you mean 'yarn_rest'?"]),
        ("sources: {yarn_rest: {intervall: 1 s}}", ["sources.yarn_rest.intervall", "did you mean 'interval'?"]),
        ('"st\\tor\\e": {}', ["st\\tor\\x1b: found an unknown key"]),
        ("stor: {}", ["stor: found an unknown key", "did you mean 'store'?"]),
        ("sources: {yarn_rest: {interval: 15}}", ["sources.yarn_rest.interval", "found 15", "a unit of time"]),
        ("sources: {yarn_rest: {interval: soon}}", ["sources.yarn_rest.interval", "found 'soon'"]),
        ("sources: {yarn_rest: {interval: 1 ms}}", ["sources.yarn_rest.interval", "greater than or equal to 100"]),
        ("sources: {yarn_rest: {enabled: maybe}}", ["sources.yarn_rest.enabled", "found 'maybe'", "boolean"]),
        ("sources: {precedence: [yarn]}", ["sources.precedence.0", "found 'yarn'", "'job_history'"]),
        ("sources: {precedence: [yarn_rest, yarn_rest]}", ["sources", "names a source twice"]),
        ("sources: {jmx: {interval: 91 s}}", ["sources.jmx.interval", "more than 90 s", "end and begin again"]),
        ("sources: {prometheus: {interval: 91 s}}", ["sources.prometheus.interval", "more than 90 s"]),
        ("sources: {prometheus: {more_metrics: {'a b': {metric: x}}}}", ["more_metrics", "'a b'", "a metric's name"]),
        ("sources: {remote_write: {address: 0.0.0.0}}", ["sources.remote_write", "not loopback", "token_file"]),
        ("sources: 3", ["sources", "found 3", "expected a mapping, as in name: value"]),
        ("alerting: {receivers: {ops: }}", ["alerting.receivers.ops", "expected a mapping, as in name: value"]),
        ("log: {level: inof}", ["log.level", "found 'inof'", "did you mean 'info'?"]),
        ("queries: {severities: {q: critcal}}", ["queries.severities.q", "did you mean 'critical'?"]),
        ("dashboard: {anonymous_role: operater}", ["dashboard.anonymous_role", "did you mean 'operator'?"]),
        ("alerting: {receivers: {ops: {kind: slak}}}", ["alerting.receivers.ops", "did you mean 'slack'?"]),
        (
            "alerting: {receivers: {ops: {kind: email, tls: startls}}}",
            ["alerting.receivers.ops.tls: found a value that is not shown", "did you mean 'starttls'?"],
        ),
        ("alerting: {receivers: [{name: ops}]}", ["alerting.receivers: found no mapping", "as in ops: {url_file: "]),
        ("alerting: {receivers: {ops: {msteamsv2_configs: []}}}", ["here it is kind: teams, its settings beside it"]),
        ("alerting: {receivers: {ops: {telegram_configs: []}}}", ["here it is kind: apprise"]),
        ("inhibit_rules: []", ["inhibit_rules: found an unknown key", "it belongs below alerting: indent it by two"]),
        ("global: {}", ["global: found an unknown key", "belong to receivers here: docs/alerting.md"]),
        ("alerting: {route: {receiver: ops}}", ["there is no receiver 'ops'; expected receivers: there are none"]),
        ("load: {low_ratio: 2}", ["load.low_ratio", "found 2", "less than or equal to 1"]),
        ("web: {port: no}", ["web.port", "found False", "a number"]),
        ("web: {port: 65536}", ["web.port", "found 65536", "less than or equal to 65535"]),
        ("queries: {severities: {q: urgent}}", ["queries.severities.q", "found 'urgent'", "'critical'"]),
        ("log: {level: loud}", ["log.level", "found 'loud'", "'debug'"]),
        ("alerting: {receivers: {ops: {}}}", ["alerting.receivers.ops", "neither url nor url_file"]),
        ("alerting: {receivers: {ops: {url: x, tmeout: 1 s}}}", ["alerting.receivers.ops.tmeout", "'timeout'"]),
        ("alerting: {external_labels: {the-site: a}}", ["alerting.external_labels", "the-site", "letters, digits"]),
        ("alerting: {external_labels: {severity: a}}", ["alerting.external_labels", "the query's own"]),
        ("alerting: {external_labels: {site: ''}}", ["alerting.external_labels.site: found ''; expected one line"]),
        (
            "alerting: {time_intervals: [{name: x, time_intervals: "
            "[{times: [{start_time: '25:00', end_time: '26:00'}]}]}]}",
            ["alerting.time_intervals.0.time_intervals.0.times: found '25:00'; expected a time of day"],
        ),
        (
            "alerting: {receivers: {ops: {url: x, authorization: Bearer hunter2}}}",
            ["a secret in the file", "authorization_file", "CLUSTERCEP__ALERTING__RECEIVERS__OPS__AUTHORIZATION"],
        ),
        ("- 1", ["expected a mapping of sections"]),
        ("a: [", ["expected YAML", "line"]),
        ("!!python/object/apply:os.getcwd []", ["expected YAML"]),
        ("a: 2020-13-45", ["month must be in 1..12", "expected YAML"]),
        ("a: !!timestamp x", ["expected YAML"]),
        ("a: " + "9" * 6_000, ["expected YAML"]),
        ("[" * 20_000, ["nested too deeply", "expected YAML"]),
        ('queries: {parameters: {q: {who: "\\ud83d"}}}', ["half of a surrogate pair", "at line 1, column 33", "YAML"]),
        ("? [a]\n: 1", ["file: found unhashable key at line 1", "expected YAML"]),
        ("load: {low_ratio: 0}\nload: {}", ["found the key 'load' twice at line 2, column 1", "expected YAML"]),
    ],
)
def test_mistakes_name_key_found_and_expected(tmp_path: Path, text: str, expected: list[str]) -> None:
    found = complaints(tmp_path, text)
    assert [part for part in expected if part not in found] == []
    assert "hunter2" not in found


def test_what_is_wrong_in_a_list_is_not_told_as_an_empty_list_too(tmp_path: Path) -> None:
    interval = "{name: x, time_intervals: [{weekdays: [mondy]}]}"
    told = complaints(tmp_path, f"alerting: {{time_intervals: [{interval}]}}")
    assert "found 'mondy'; expected one of sunday, monday" in told
    assert len(told.splitlines()) == 1
    told = complaints(tmp_path, "alerting: {time_intervals: [{name: x, time_intervals: []}]}")
    assert "alerting.time_intervals.0.time_intervals: " in told


def test_a_choice_of_the_environment_is_told_the_nearest(tmp_path: Path) -> None:
    told = complaints(tmp_path, "log: {level: info}", CLUSTERCEP__LOG__LEVEL="warnin")
    assert "found 'warnin' in $CLUSTERCEP__LOG__LEVEL" in told
    assert "did you mean 'warning'?" in told


def test_an_unknown_key_of_the_environment_names_its_variable(tmp_path: Path) -> None:
    """Whether the variable is the key, lies in it, or holds it; a key of the file is the file's."""
    for variables in (
        {"CLUSTERCEP__ALERTING__RECIEVERS": "{}"},
        {"CLUSTERCEP__ALERTING__RECIEVERS__OPS__URL_FILE": "x"},
        {"CLUSTERCEP__ALERTING": '{"recievers": {}}'},
    ):
        told = complaints(tmp_path, "load: {}", **variables)
        assert f"alerting.recievers: found an unknown key in ${next(iter(variables))}; expected" in told
        assert "did you mean 'receivers'?" in told
    told = complaints(tmp_path, "alerting: {recievers: {}}", CLUSTERCEP__ALERTING__LINKS="{}")
    assert "alerting.recievers: found an unknown key; expected" in told


def test_all_mistakes_are_found_at_once(tmp_path: Path) -> None:
    found = complaints(tmp_path, "log: {level: loud}\nload: {low_ratio: 2}\nextra: 1", CLUSTERCEP__STOR__URL="x")
    assert len(found.splitlines()) == 4
    assert "$CLUSTERCEP__STOR__URL" in found


def test_what_the_environment_says_is_shown_as_its_own(tmp_path: Path) -> None:
    found = complaints(tmp_path, "load: {busy_percent: 20}", clustercep__load__BUSY_PERCENT="abc")
    assert "load.busy_percent: found 'abc' in $clustercep__load__BUSY_PERCENT; expected" in found
    assert "$CLUSTERCEP__LOAD...: found a value that cannot be read" in complaints(
        tmp_path, "", CLUSTERCEP__LOAD="{bad"
    )
    assert "load: found '[1]' in $CLUSTERCEP__LOAD" in complaints(tmp_path, "", CLUSTERCEP__LOAD="[1]")
    assert "$CLUSTERCEP__SOURCES...:" in complaints(tmp_path, "", CLUSTERCEP__SOURCES__HOSTS="{hunter2")


def test_bytes_of_the_environment_that_are_no_text(tmp_path: Path) -> None:
    found = complaints(tmp_path, "", CLUSTERCEP__STORE__URL="sqlite:///\udcff")
    assert "$CLUSTERCEP__STORE__URL: found bytes that are not UTF-8; expected text in UTF-8" in found


def test_a_secret_is_not_shown_when_its_receiver_is_wrong(tmp_path: Path) -> None:
    found = complaints(tmp_path, "alerting: {receivers: {ops: {url: 'http://x/hunter2', url_file: y}}}")
    assert "hunter2" not in found


def test_a_missing_file_says_how_to_name_another(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--config"):
        load_settings(tmp_path / "no.yaml", {})


def test_secrets_from_files(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hunter2\n")
    secret = read_secret(None, file, "key")
    assert secret is not None
    assert secret.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(secret)
    file.write_text("one\ntwo")
    with pytest.raises(ConfigError, match="several lines"):
        read_secret(None, file, "key")
    with pytest.raises(ConfigError, match="key: found No such file"):
        read_secret(None, tmp_path / "none", "key")


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().log = None  # type: ignore[assignment,misc]  # must be refused


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("500 ms", 500),
        ("15 s", 15_000),
        ("15s", 15_000),
        ("2 min", 120_000),
        ("1.5 h", 5_400_000),
        ("30 days", 2_592_000_000),
    ],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "15", "s", "-1 s", "1 parsec", "1 s 2", "1e3 s", "٣ s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="unit of time"):
        parse_duration_ms(text)


def test_sizes() -> None:
    assert parse_size_bytes("64 MiB") == 64 * 2**20
    assert parse_size_bytes("3 kB") == 3_000


@given(st.integers(1, 10**11))
def test_a_formatted_duration_is_the_nearest_of_its_form(duration_ms: int) -> None:
    parts = format_duration(duration_ms).split()
    read = sum(parse_duration_ms(f"{a} {b}") for a, b in zip(parts[::2], parts[1::2], strict=True))
    finest = next(ms for least, ms in _FINEST if read >= least)
    assert 2 * abs(read - duration_ms) <= finest


_FINEST = ((86_400_000, 3_600_000), (3_600_000, 60_000), (60_000, 1_000), (1_000, 100), (0, 1))
"""From so many milliseconds on, the smallest step that is shown."""


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (0.173913, "0.17 ms"),
        (0.0004, "0 ms"),
        (999, "999 ms"),
        (999.7, "1 s"),
        (10_716, "10.7 s"),
        (59_949, "59.9 s"),
        (59_950, "1 min"),
        (63_665, "1 min 4 s"),
        (119_700, "2 min"),
        (3_599_800, "1 h"),
        (86_399_000, "1 d"),
        (-90_000, "-1 min 30 s"),
    ],
)
def test_durations_are_rounded(duration_ms: float, text: str) -> None:
    assert format_duration(duration_ms) == text


def test_formatted_sizes_and_times() -> None:
    assert [format_size(n) for n in (0, 1023, 1023.6, 144_049_176, 2**20 - 1, -2048)] == [
        "0 B", "1023 B", "1.0 KiB", "137.4 MiB", "1.0 MiB", "-2.0 KiB",
    ]  # fmt: skip
    assert format_time(1_795_178_714_919) == "2026-11-20 12:45:14.919 UTC"
    assert format_time(0) == "1970-01-01 00:00:00 UTC"
    with pytest.raises(ValueError, match="between the years"):
        format_time(2**62)


@settings(max_examples=settings().max_examples // 2)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
    )
)
def test_no_content_breaks_the_reader(content: object) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(ConfigError):
        path = Path(folder) / "config.yaml"
        path.write_text(yaml.safe_dump(json.loads(json.dumps(content)), allow_unicode=False))
        load_settings(path, {})
