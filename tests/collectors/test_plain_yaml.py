"""Lists, mappings and texts, as PyYAML's own base loader reads them, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from collectors import plain_yaml
from collectors.plain_yaml import load_plain
from collectors.yaml_depth import MAX_FLOW_DEPTH, ShallowFlow

UNUSUAL = [
    "12",
    "1:1:1",
    "~",
    "null",
    "yes",
    "2026-11-27",
    "<<",
    "- a",
    "a: b",
    "#",
    "",
    " ",
    "&a",
    "*a",
    "!t",
    "'",
    "\n",
]
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn"]), max_size=12) | st.sampled_from(
    UNUSUAL
)
DOCUMENTS = st.recursive(
    TEXTS, lambda of: st.lists(of, max_size=4) | st.dictionaries(TEXTS, of, max_size=4), max_leaves=25
)


@pytest.fixture(params=["libyaml", "PyYAML alone"])
def any_loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "PyYAML alone":
        monkeypatch.setattr(plain_yaml, "_Loader", ShallowFlow)
    else:
        assert yaml.__with_libyaml__


@given(DOCUMENTS, st.sampled_from([None, True, False]), st.sampled_from([None, "'", '"', "|"]), st.booleans())
@example({"a": [], "b": {}, "": "x"}, False, None, True)
def test_what_is_written_is_read(document: Any, flow: bool | None, style: str | None, is_marked: bool) -> None:
    text = yaml.dump(
        document, default_flow_style=flow, default_style=style, explicit_start=is_marked, allow_unicode=True
    )
    assert load_plain(text) == document == yaml.load(text, yaml.BaseLoader)


@given(st.text(st.sampled_from("ab1 \n-:?,[]{}'\"#|>%~\t"), max_size=24))
def test_any_text_is_read_as_by_the_base_loader_or_refused(text: str) -> None:
    """libyaml and PyYAML differ in what they refuse: neither reads what the other reads otherwise."""
    try:
        expected = yaml.load(text, yaml.BaseLoader)
        found = load_plain(text)
    except yaml.YAMLError:
        return
    except TypeError:  # a list as a key
        with pytest.raises(yaml.YAMLError):
            load_plain(text)
        return
    assert found == expected


@pytest.mark.usefixtures("any_loader")
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: &x 1\nb: *x\n", "a reference .*line 2, column 4"),
        ("a: 1\n---\nb: 2\n", "another document; expected one.*line 2, column 1"),
        ("? [a, b]\n: 1\n", "a key that is a list or a mapping; expected a text.*line 1, column 3"),
        ("{{a: 1}: 2}", "a key that is a list or a mapping; expected a text.*line 1, column 2"),
        ("a: [1, 2", "line 1"),
        ("a: \x07", ""),
        ("a: \ud83d", ""),
        ("[" * (MAX_FLOW_DEPTH + 1), f"nested too deeply: more than {MAX_FLOW_DEPTH} .*line 1, column 65"),
        ("- " * (MAX_FLOW_DEPTH + 1), f"nested too deeply: more than {MAX_FLOW_DEPTH} .*line 1, column 129"),
    ],
)
def test_what_is_refused_is_told_where_it_is(text: str, what: str) -> None:
    with pytest.raises(yaml.YAMLError, match=f"(?s){what}"):
        load_plain(text)


@pytest.mark.usefixtures("any_loader")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("# nothing\n", None),
        ("---\n", ""),
        ("!!python/object/apply:os.getcwd []", []),
        ("a: !!int 12", {"a": "12"}),
        ("a: 1\na: 2", {"a": "2"}),
        ("? a\n? b\n", {"a": "", "b": ""}),
        ("[" * MAX_FLOW_DEPTH + "]" * MAX_FLOW_DEPTH, None),
    ],
)
def test_what_is_unusual(text: str, expected: Any) -> None:
    """Nothing at all, tags, which make no objects, a key twice, keys without values, and as deep as is allowed."""
    found = load_plain(text)
    if text.startswith("[["):
        for _ in range(MAX_FLOW_DEPTH - 1):
            [found] = found
        expected = []
    assert found == expected
