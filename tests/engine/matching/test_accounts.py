"""Every search is paid for by the events of the stream, whichever runtime does it: an account that is empty, as after a
long time of cheap searches, is full again when enough events have come, and nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from unittest.mock import patch

import pytest

from engine.events import FOREVER_MS, EventBatch
from engine.matching.brake import Brake
from engine.matching.protocol import Limits
from engine.matching.work_account import _EVENTS_PER_BUDGET, _SAVED, WorkAccount
from tests.engine.matching import test_bounds
from tests.engine.matching.output.test_form_bounds import FORMS
from tests.engine.matching.test_bounds import ANY, NEXT, Running, batch, emitted, query

PATTERNS = (
    *((pattern, ANY, "") for pattern in test_bounds.PATTERNS),
    ("SEQ(A a, B b, C c)", ANY, ""),
    ("SEQ(A a, B b, B c, C d)", ANY, ""),
    ("SEQ(A a, B+ b[])", ANY, ""),
    ("SEQ(A+ a[], C c)", ANY, ""),
    ("SEQ(A a, B+ b[], C c)", ANY, ""),
    ("SEQ(A a, B b, B+ c[], C d)", ANY, ""),
    ("SEQ(A a, B+ b[], !N n, C c)", ANY, ""),
    ("SEQ(A a, B+ b[], C+ c[], A d)", ANY, ""),
    ("SEQ(A a, OR(B b, B+ d[]), C c)", ANY, ""),
    ("SEQ(A a, B+ b[], C c)", NEXT, ""),
    ("SEQ(A a, B b, !N n)", NEXT, ""),
    ("SEQ(A a, B+ b[], C c)", ANY, "b[i].x >= b[i-1].x"),
    ("SEQ(A a, B+ b[], C c)", ANY, "count(b[]) >= 2"),
    ("SEQ(A a, B+ b[], C c)", ANY, "sum(b[].x) >= c.x"),
    ("SEQ(A a, B+ b[], C c, A d)", ANY, "b[i].x >= c.x OR a.x >= 0"),
)
HARD = test_bounds.PATTERNS[5]
"""What it finds among events that overlap is more than an account pays for, or a processor."""
FORMS_OF_SEARCHES = (*FORMS, "OUTPUT TOP 2 BY CONFIDENCE", "LIMIT 3")
TYPES = "ABBBCBCAAC"
DECIDED = 200
"""So many events later all matches of the first ones are decided."""
ENOUGH = (_SAVED + 1) * _EVENTS_PER_BUDGET


@cache
def stream(width_ms: int) -> tuple[EventBatch, EventBatch, EventBatch]:
    """Few events, many that no query is about, the few again."""
    first, later = batch(TYPES, width_ms=width_ms), batch(TYPES, first=DECIDED + ENOUGH, width_ms=width_ms)
    return first, batch("Z" * ENOUGH, first=DECIDED), later


@pytest.fixture(name="accounts")
def all_accounts() -> Iterator[list[WorkAccount]]:
    accounts: list[WorkAccount] = []
    account = Brake.account

    def noted(brake: Brake, *given: int, **named: int) -> WorkAccount:
        accounts.append(account(brake, *given, **named))
        return accounts[-1]

    with patch.object(Brake, "account", noted):
        yield accounts


@pytest.mark.in_turn(of=3)
@pytest.mark.parametrize("width_ms", [0, 25])
@pytest.mark.parametrize("form", FORMS_OF_SEARCHES)
@pytest.mark.parametrize(("pattern", "strategy", "where"), PATTERNS)
def test_an_empty_account_is_filled_by_any_events(
    pattern: str, strategy: str, where: str, form: str, width_ms: int, accounts: list[WorkAccount]
) -> None:
    if width_ms and (strategy == NEXT or pattern == HARD):
        return
    text = query(pattern, strategy, f"WITHIN 1 s {form}", where)
    if "CONSUME" in form and "A a" not in pattern:
        return
    first, idle, later = stream(width_ms)
    rows, cut = [], []
    for is_empty in (False, True):
        accounts.clear()
        running = Running(text, Limits())
        running.give(first, 10 * DECIDED)
        n_before, cut_before = len(running.rows), running.runtime.n_unfinished
        assert accounts
        for account in accounts if is_empty else []:
            account.account[0] = 0
        running.give(idle, 10 * (DECIDED + ENOUGH))
        running.give(later, FOREVER_MS)
        rows.append([emitted(row) for row in running.rows[n_before:]])
        cut.append(running.runtime.n_unfinished - cut_before)
    assert rows[0] == rows[1]
    assert rows[0] or "(B b)+" in pattern
    assert cut[0] == cut[1]
