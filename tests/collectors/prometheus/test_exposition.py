"""The text of exporters: both formats, what is chosen, bounds, and answers that are none."""

from __future__ import annotations

import pytest

from collectors.prometheus import exposition
from collectors.prometheus.exposition import Exposition, ExpositionError, parse_exposition

TEXT = "text/plain; version=0.0.4"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def parsed(text: str, *metrics: str, content_type: str = TEXT) -> Exposition:
    return parse_exposition(text.encode(), content_type, metrics)


def test_chosen_lines_of_the_text_format() -> None:
    text = (
        "# HELP a Of a.\n# TYPE a counter\n"
        '  a{x="1,}\\"\\n{",y=""} 5 1700000000123\n'
        "a\t7\r\n\n"
        "b 1\n"
        'c_bucket{le="+Inf"} 3\n'
        'a{x="1,}\\"\\n{",y=""} 9\n'
    )
    found = parsed(text, "a")
    assert [(s.labels, s.value, s.t_ms) for s in found.samples] == [
        ({"x": '1,}"\n{', "y": ""}, 5.0, 1_700_000_000_123), ({}, 7.0, None),
    ]  # fmt: skip
    assert (found.n_others, found.n_repeated) == (2, 1)


def test_openmetrics_with_seconds_and_exemplars() -> None:
    text = (
        "# TYPE requests counter\n# HELP requests Of requests.\n# UNIT other seconds\n"
        'requests_total{a="b"} 4 1700000000.5 # {trace="x"} 1.0\n'
        "requests_created 17\n"
        "# TYPE load gauge\nload 0.5\n# EOF\n"
    )
    found = parsed(text, "requests_total", "load", content_type=OPENMETRICS)
    assert [(s.name, s.value, s.t_ms) for s in found.samples] == [
        ("requests_total", 4.0, 1_700_000_000_500), ("load", 0.5, None),
    ]  # fmt: skip
    assert found.n_others == 1
    with pytest.raises(ExpositionError, match="not whole") as raised:
        parsed(text.removesuffix("# EOF\n"), "load", content_type=OPENMETRICS)
    assert raised.value.kind == "truncated"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html>", "line 1, which begins '<html>'"),
        ("b 1\n{}", "line 2"),
        ('b 1\na{x="1" 5\n', "line 2"),
        ("a 1e\n", "line 1"),
        ("a\n", "line 1"),
        ("a 1 99999999999999999999\n", "line 1"),
        ("a{" + ",".join(f'l{n}="x"' for n in range(65)) + "} 1\n", "65 labels"),
        ('a{l="' + "x" * 1_025 + '"} 1\n', "more than 1,024 characters"),
        ('a{l="' + "x" * 9_000 + '"} 1\n', "longer than 8,192"),
    ],
)
def test_what_is_no_exposition_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ExpositionError, match=message):
        parsed(text, "a")


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(ExpositionError, match="UTF-8"):
        parse_exposition(b"a 1\n\xff", TEXT, ["a"])


def test_names_that_are_quoted_are_counted_as_others() -> None:
    assert parsed('{"my.metric",x="1"} 5\na 1\n', "a").n_others == 1


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "MAX_SERIES", 5)
    monkeypatch.setattr(exposition, "MAX_CHOSEN", 2)
    assert parsed("b 1\n" * 5, "a").n_others == 5
    with pytest.raises(ExpositionError, match="more than 5 samples"):
        parsed("b 1\n" * 6, "a")
    with pytest.raises(ExpositionError, match="more than 2 samples are chosen"):
        parsed('a{x="1"} 1\na{x="2"} 1\na 1\n', "a")
    monkeypatch.setattr(exposition, "MAX_LINES", 9)
    assert parsed("#\n" * 9, "a").n_others == 0
    for line in ("\n", "#\n", "# HELP b b\n"):
        with pytest.raises(ExpositionError, match="more than 9 lines"):
            parsed(line * 10, "a")
