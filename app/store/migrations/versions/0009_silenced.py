"""silenced beside the state of an alert

What each change went to, and where the alert stands, follows from its history: an alert that was silenced is again what
it was before.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_CHUNK = 1_000
_INDEX = "ix_alerts_silenced"


def upgrade() -> None:
    """Apply."""
    for table in ("alerts", "alert_changes"):
        op.add_column(table, sa.Column("silenced", sa.Boolean(), nullable=False, server_default=sa.false()))
    _split_states()
    op.create_index(_INDEX, "alerts", ["silenced", "start_ms", "id"])


def downgrade() -> None:
    """Take back: silenced is a state again, which hides the one beside it."""
    op.drop_index(_INDEX, table_name="alerts")
    for table, state in ((_ALERTS, "state"), (_CHANGES, "to_state")):
        hidden = table.update().where(table.c.silenced.is_(True), table.c[state] != "resolved")
        op.get_bind().execute(hidden.values({state: "silenced"}))
        op.drop_column(table.name, "silenced")


def _split_states() -> None:
    connection = op.get_bind()
    last = ""
    while True:
        statement = sa.select(_CHANGES.c.alert_id).where(_CHANGES.c.to_state == "silenced", _CHANGES.c.alert_id > last)
        ids = connection.scalars(statement.distinct().order_by(_CHANGES.c.alert_id).limit(_CHUNK)).all()
        if not ids:
            break
        for start in range(0, len(ids), 500):  # databases limit the number of bound parameters
            _split_histories(connection, ids[start : start + 500])
        last = ids[-1]
    # An alert without its history: all that is known is that it is not over.
    left = _ALERTS.update().where(_ALERTS.c.state == "silenced")
    connection.execute(left.values(state="firing", silenced=True))


def _split_histories(connection: sa.Connection, ids: Any) -> None:
    columns = (_CHANGES.c.alert_id, _CHANGES.c.revision, _CHANGES.c.to_state)
    rows = connection.execute(
        sa.select(*columns).where(_CHANGES.c.alert_id.in_(ids)).order_by(_CHANGES.c.alert_id, _CHANGES.c.revision)
    ).all()
    standing: dict[str, tuple[str | None, bool]] = {}
    changed = []
    for alert_id, number, told in rows:
        before, was_silenced = standing.get(alert_id, (None, False))
        state, silenced = standing[alert_id] = _after(before, told, silenced=was_silenced)
        changed.append({"of": alert_id, "n": number, "before": before, "after": state, "quiet": silenced})
    connection.execute(_CHANGE, changed)
    connection.execute(_STANDING, [{"of": i, "after": s, "quiet": q} for i, (s, q) in standing.items()])


def _after(before: str | None, told: str, *, silenced: bool) -> tuple[str, bool]:
    """(State, whether silenced) after a change that the history tells as `told`."""
    if told == "silenced":
        return ("acknowledged" if before == "acknowledged" else "firing"), True
    # Who acknowledged a silenced alert did not end its silence; the next step sees whether it still holds. What fired
    # or was over again was told.
    return told, silenced and told == "acknowledged"


_ALERTS = sa.table(
    "alerts", sa.column("id", sa.String()), sa.column("state", sa.String()), sa.column("silenced", sa.Boolean())
)
_CHANGES = sa.table(
    "alert_changes",
    sa.column("alert_id", sa.String()),
    sa.column("revision", sa.BigInteger()),
    sa.column("from_state", sa.String()),
    sa.column("to_state", sa.String()),
    sa.column("silenced", sa.Boolean()),
)
_CHANGE = (
    _CHANGES.update()
    .where(_CHANGES.c.alert_id == sa.bindparam("of"), _CHANGES.c.revision == sa.bindparam("n"))
    .values(from_state=sa.bindparam("before"), to_state=sa.bindparam("after"), silenced=sa.bindparam("quiet"))
)
_STANDING = (
    _ALERTS.update()
    .where(_ALERTS.c.id == sa.bindparam("of"))
    .values(state=sa.bindparam("after"), silenced=sa.bindparam("quiet"))
)
