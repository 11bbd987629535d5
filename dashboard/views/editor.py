"""Write a query, see at once whether it is one, and run it over the events that are kept."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

import pandas as pd
import streamlit as st

from app.queries.loading import MAX_QUERY_BYTES
from collectors.schema import event_table, load_event_types
from dashboard import links, looks
from dashboard.components.copied_texts import CopiedText, copied_texts
from dashboard.components.query_editor import query_editor, typed_text
from dashboard.queries.check import NAME_OF_OWN, NO_NAME, Checked, check_query
from dashboard.queries.list import KnownQueries, default_values, loaded_queries
from dashboard.queries.panel import run_panel
from dashboard.static_table import show_table
from dashboard.store import settings
from dashboard.text import md

MAX_URL_CHARS = 1_500
"""Longer texts are not put into the address: browsers, proxies and chats cut it."""

PARAMETER = "p."
"""Before the names of a query's parameters in the address."""

BLANK = """-- One row per job whose mappers took more than a minute on average.
PARAMETERS least = 1 minute
PATTERN SEQ(JobStart a, Mapper+ b[], JobEnd c)
WHERE   skip_till_next_match { [job_id] }
WITHIN  1 day
HAVING  avg(b[].period_ms) > :least
RETURN  a.job_id, a.job_name, avg(b[].period_ms) AS avg_ms, count(b[]) AS n_mappers
"""

LATE_S = 10.0
"""A request may still carry an address that this page has replaced since: so long nobody is taken to have chosen it."""

MAX_FOUND = 100
"""Attributes that are shown at once."""

_REPLACED = "editor-replaced"
"""When each address that this page has replaced was."""

_TEXT, _NAME, _SHOWN, _NUMBER, _BEFORE = "editor-text", "editor-name", "editor-url", "editor-number", "editor-before"


def page() -> None:
    """The editor of `?name=` (a query file) or `?text=`."""
    st.title("Query editor")
    known = loaded_queries()
    _take_over_url(known)
    _templates(known)
    key, start = f"editor-field-{st.session_state[_NUMBER]}", st.session_state[_TEXT]
    name = st.session_state[_NAME] or NO_NAME
    text = typed_text(key, start)
    writing, reference = st.container(key=looks.BESIDE).columns([5, 3], gap="medium")
    with writing:
        below = st.container()
        written = _parameters(text, known)
        checked = check_query(text, written, name, known.others())
        with below:
            typed = query_editor(
                key,
                start,
                problem=checked.problem,
                verdict=_verdict(checked),
                types=sorted(load_event_types().types),
                max_chars=MAX_QUERY_BYTES,
            )
    with reference:
        _reference()
    # What is there only at times keeps its place: else what stands below it moves, and for a moment the browser shows
    # two buttons to run, of which the old one still takes clicks while the text has become invalid.
    plan, too_long = st.container(), st.container()
    if checked.compiled is not None:
        with plan.expander("Plan: how the query is read and evaluated", icon=":material/account_tree:"):
            copied_texts("plan", [CopiedText("the plan", checked.compiled.explain(), kind="lines")])
    st.session_state[_TEXT + "-now"] = text
    with too_long:
        _keep_url(text, written, known)
    run_panel(name, text, checked, run_now=typed.run)
    _download(text, checked, name)


# ------------------------------------------------------------------ the text


def _take_over_url(known: KnownQueries) -> None:
    """Begin with what the address names, unless it is what this page itself put there."""
    given = (st.query_params.get("name"), st.query_params.get("text"))
    state = st.session_state
    if _NUMBER in state and (given in (state[_SHOWN], (None, None)) or _is_late(given)):
        state[_TEXT] = state.get(_TEXT + "-now", state[_TEXT]) if given == (None, None) else state[_TEXT]
        return
    name, text = given
    query = None if name is None else known.named(name)
    if name is not None and query is None:
        st.warning(f"There is no query {md(name)}. Choose one below, or write your own.", icon=":material/search_off:")
    if text is not None and len(text) <= MAX_URL_CHARS:
        _show(text, None)
    elif query is not None:
        _show(query.text, query.name)
    else:
        _show(BLANK, None)
    state[_SHOWN] = given


def _is_late(given: tuple[str | None, str | None]) -> bool:
    replaced_s = st.session_state.get(_REPLACED, {}).get(given)
    return replaced_s is not None and time.monotonic() - replaced_s < LATE_S


def _show(text: str, name: str | None) -> None:
    """Another text in a new field."""
    state = st.session_state
    state[_NUMBER] = state.get(_NUMBER, 0) + 1
    state[_TEXT], state[_NAME] = text, name
    state[_TEXT + "-now"] = text


def _templates(known: KnownQueries) -> None:
    choose, undo = st.columns([5, 3], gap="medium", vertical_alignment="bottom")
    choose.selectbox(
        "Start from",
        [query.name for query in known.queries],
        index=None,
        key=f"editor-template-{st.session_state[_NUMBER]}",
        placeholder="a query of this installation",
        format_func=lambda name: name,
        on_change=_start_from,
        args=(known,),
    )
    before = st.session_state.get(_BEFORE)
    if before is not None:
        undo.button("Back to my text", icon=":material/undo:", on_click=_go_back, key="editor-undo")


def _start_from(known: KnownQueries) -> None:
    state = st.session_state
    chosen = known.named(state.get(f"editor-template-{state[_NUMBER]}") or "")
    if chosen is None:
        return
    mine = state[_TEXT + "-now"]
    state[_BEFORE] = (mine, state[_NAME]) if known_text(mine, known) is None else None
    _show(chosen.text, chosen.name)


def _go_back() -> None:
    text, name = st.session_state[_BEFORE]
    st.session_state[_BEFORE] = None
    _show(text, name)


def known_text(text: str, known: KnownQueries) -> str | None:
    """The name of the query file with just this text."""
    return next((query.name for query in known.queries if query.text == text), None)


def _keep_url(text: str, written: Mapping[str, str], known: KnownQueries) -> None:
    """What a colleague needs to see the same."""
    name = known_text(text, known)
    wanted = {f"{PARAMETER}{key}": value for key, value in written.items() if value}
    if name is not None:
        wanted["name"] = name
    elif len(text) <= MAX_URL_CHARS:
        wanted["text"] = text
    else:
        st.caption("The text is too long for the address: send it as a file (below).")
    given = {key: st.query_params[key] for key in st.query_params}
    rest = {key: value for key, value in given.items() if key in ("from", "to", "over")}
    if {**rest, **wanted} != given:
        st.query_params.from_dict({**rest, **wanted})
    shown, before = (wanted.get("name"), wanted.get("text")), st.session_state[_SHOWN]
    if shown != before:
        now_s = time.monotonic()
        replaced = {**st.session_state.get(_REPLACED, {}), before: now_s}
        st.session_state[_REPLACED] = {
            address: at_s for address, at_s in replaced.items() if address != shown and now_s - at_s < LATE_S
        }
    st.session_state[_SHOWN] = shown


# ---------------------------------------------------------------- parameters


def _parameters(text: str, known: KnownQueries) -> dict[str, str]:
    """The values as typed, "" for the default; beginning with the address', else the configured ones."""
    defaults = default_values(text)
    if not defaults:
        return {}
    name = st.session_state[_NAME]
    query = None if name is None else known.named(name)
    configured = {} if query is None else query.configured
    st.caption("Parameters; empty ones keep the default of the query. Durations may have a unit: 90 s.")
    written = {}
    columns = st.columns(min(3, len(defaults)))
    for at, (key, default) in enumerate(defaults.items()):
        begin = st.query_params.get(f"{PARAMETER}{key}", str(configured.get(key, "")))
        written[key] = columns[at % len(columns)].text_input(
            md(key),
            value=begin[:200],
            placeholder=f"{default}",
            max_chars=200,
            key=f"editor-parameter-{st.session_state[_NUMBER]}-{key}",
        )
    return written


# ----------------------------------------------------------------- reference


def _verdict(checked: Checked) -> str:
    if checked.compiled is None:
        return ""
    types = ", ".join(sorted(checked.compiled.types))
    return f"✓ Valid. It reads {types}."


def _reference() -> None:
    wanted = st.text_input(
        "Find an event or attribute",
        placeholder="shuffle, host, queue …",
        key="editor-reference",
        help="In names, units and meanings; all words must occur.",
    )
    frame = reference_frame(wanted) if wanted.split() else events_frame()
    if frame.empty:
        st.caption("Nothing has these words; clear the field to see everything.")
        return
    drawn = frame.head(MAX_FOUND)
    with st.container(height=360, border=False):
        show_table({str(name): drawn[name] for name in drawn}, label="Events and attributes", broken=("Attributes",))
        if len(frame) > len(drawn):
            st.caption(f"The first {len(drawn)} of {len(frame):,}; more words find fewer.")
        elif not wanted.split():
            st.caption("Words above show what attributes mean, their units, types and sources.")


def events_frame() -> pd.DataFrame:
    """Every event type with the names of its attributes."""
    found: dict[str, list[str]] = {}
    for row in event_table():
        found.setdefault(row.type, []).append(row.attribute)
    return pd.DataFrame({"Event": list(found), "Attributes": [", ".join(names) for names in found.values()]})


def reference_frame(words: str) -> pd.DataFrame:
    """Event types and attributes that have all of the words."""
    columns = ["Event", "Attribute", "Meaning", "Unit", "Type", "Sources"]
    rows = [
        (row.type, row.attribute, row.meaning, row.unit, row.kind.value, ", ".join(sorted(row.sources)))
        for row in event_table()
    ]
    wanted = words.lower().split()
    found = [row for row in rows if all(word in " ".join(row).lower() for word in wanted)]
    return pd.DataFrame(found, columns=columns)


# ------------------------------------------------------------------ download


def _download(text: str, checked: Checked, name: str) -> None:
    st.subheader("Keep it")
    asked, offered = st.columns([2, 3], vertical_alignment="bottom")
    chosen = asked.text_input("Name of the query", value=NAME_OF_OWN if name == NO_NAME else name, max_chars=80)
    fits = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", chosen) is not None
    offered.download_button(
        f"Download {chosen if fits else 'NAME'}.cep",
        data=text,
        file_name=f"{chosen if fits else 'query'}.cep",
        mime="text/plain",
        icon=":material/download:",
        disabled=not fits or checked.compiled is None,
        on_click="ignore",
        key="editor-download",
    )
    if not fits:
        st.caption("A name has letters, digits, - and _ only.")
    st.caption(
        f"Queries are files under review, so nothing is saved from here. Put the file into "
        f"{md(settings().queries.directory, 300)}, beside it a NAME.test.yaml with cases, and a paragraph of this name "
        "into RUNBOOK.md; try it with clustercep check and clustercep test. The running process takes it over on "
        "SIGHUP or POST /-/reload."
    )
    links.link("queries", "All queries", icon=":material/list:")
