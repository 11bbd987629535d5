"""What is beside an incident, against counting it one by one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.alerting import at_once
from app.alerting.at_once import AtOnce, Beside, Names

NAMES = st.sampled_from([None, "", *"abcdefgh"])


@st.composite
def alerts(draw: st.DrawFn) -> list[Beside]:
    n = draw(st.integers(0, 30))
    return [Beside(str(i), draw(st.sampled_from("xyz")), draw(NAMES), draw(NAMES)) for i in range(n)]


@given(alerts(), st.lists(st.sets(st.integers(0, 40).map(str)), min_size=1, max_size=4), st.integers(1, 12))
def test_all_but_some_are_counted(found: list[Beside], asked: list[set[str]], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(at_once, "MAX_OTHERS", most)
        counted = AtOnce(found)
        for known in asked:  # one after the other: what is kept between them changes nothing
            rest = [alert for alert in found if alert.id not in known][:most]
            others = counted.without(known)
            assert others.n == len(rest)
            assert others.kinds == Counter(alert.query for alert in rest)
            assert others.hosts == Names.of(alert.host for alert in rest)
            assert others.jobs == Names.of(alert.job_id for alert in rest)
