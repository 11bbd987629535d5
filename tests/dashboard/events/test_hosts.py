"""Which hosts an event is about, in words."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.events.hosts import NOT_RECORDED, hosts_of


@pytest.mark.parametrize(
    ("event_type", "attributes", "shown"),
    [
        ("MapEnd", {"host": "node4"}, "node4"),
        ("DataPull", {"source_host": "node5"}, "from node5"),
        ("JobEnd", {"job_id": "j"}, None),
        ("LoadStd", {"val": 42.4, "host_1": "node1", "value_1": 95.25, "host_2": "node2", "value_2": 94.0},
         "node1 (95.2), node2 (94)"),
        ("Imbalance", {"busy_ratio": 0.5, "host_1": "node1", "value_1": None}, "node1"),
        ("LoadStd", {"val": 42.4}, NOT_RECORDED),  # of an older store
        ("Imbalance", {"busy_ratio": 0.5, "host_1": None}, NOT_RECORDED),
        ("LoadStd", {"val": 0.0}, None),  # all alike: none is further from the mean than another
        ("Balance", {"busy_ratio": 0.0}, None),  # perhaps alike
        ("LoadStd", {"val": 1.0, "host_1": "<b>&", "value_1": 3.0}, "<b>& (3)"),
    ],
)  # fmt: skip
def test_hosts_of(event_type: str, attributes: dict[str, Any], shown: str | None) -> None:
    assert hosts_of(event_type, attributes) == shown
