"""fingerprints and attempts of messages; whether receivers take them

Messages get the fingerprint of their alert's labels. What waits is tried as if it were new: in order, and for the whole
time after which it is given up. What waits although something later of the same labels was tried is overtaken.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_CHUNK = 500
_OLD = ("ix_notifications_status_receiver", ["status", "receiver", "sequence"])
_NEW = (
    ("ix_notifications_due", ["status", "receiver", "next_attempt_ms", "sequence"]),
    ("ix_notifications_fingerprint", ["receiver", "fingerprint", "status", "sequence"]),
)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "receiver_status",
        sa.Column("receiver", sa.String(length=100), nullable=False),
        sa.Column("down_since_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("delivered_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("receiver", name=op.f("pk_receiver_status")),
    )
    op.add_column("notifications", sa.Column("fingerprint", sa.String(length=32), nullable=False, server_default=""))
    op.add_column("notifications", sa.Column("tried_since_ms", sa.BigInteger(), nullable=True))
    _put_fingerprints()
    op.drop_index(_OLD[0], table_name="notifications")
    for name, columns in _NEW:
        op.create_index(name, "notifications", columns)
    _overtake()


def downgrade() -> None:
    """Take back: what was overtaken was never told."""
    op.get_bind().execute(_MESSAGES.update().where(_MESSAGES.c.status == "overtaken").values(status="failed"))
    for name, _ in _NEW:
        op.drop_index(name, table_name="notifications")
    op.create_index(_OLD[0], "notifications", _OLD[1])
    for column in ("tried_since_ms", "fingerprint"):
        op.drop_column("notifications", column)
    op.drop_table("receiver_status")


def _put_fingerprints() -> None:
    connection = op.get_bind()
    last = ""
    while True:
        told = sa.exists().where(_MESSAGES.c.alert_id == _ALERTS.c.id)
        statement = sa.select(_ALERTS.c.id, _ALERTS.c.labels).where(_ALERTS.c.id > last, told)
        rows = connection.execute(statement.order_by(_ALERTS.c.id).limit(_CHUNK)).all()
        if not rows:
            return
        connection.execute(_FINGERPRINT, [{"of": i, "is": _fingerprint(labels) if labels else i} for i, labels in rows])
        last = rows[-1][0]


def _fingerprint(labels: dict[str, Any]) -> str:
    """As messages have it."""
    text = json.dumps([str(text) for pair in sorted(labels.items()) for text in pair], ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()[:16]


def _overtake() -> None:
    later = _MESSAGES.alias("later")
    tried = sa.exists().where(
        later.c.receiver == _MESSAGES.c.receiver,
        later.c.fingerprint == _MESSAGES.c.fingerprint,
        later.c.status.in_(("delivered", "failed")),
        later.c.sequence > _MESSAGES.c.sequence,
    )
    waiting = _MESSAGES.update().where(_MESSAGES.c.status == "pending", tried)
    op.get_bind().execute(waiting.values(status="overtaken", finished_ms=_MESSAGES.c.next_attempt_ms))


_ALERTS = sa.table("alerts", sa.column("id", sa.String()), sa.column("labels", sa.JSON()))
_MESSAGES = sa.table(
    "notifications",
    *(sa.column(name, sa.String()) for name in ("receiver", "alert_id", "fingerprint", "status")),
    *(sa.column(name, sa.BigInteger()) for name in ("sequence", "next_attempt_ms", "finished_ms")),
)
_FINGERPRINT = (
    _MESSAGES.update().where(_MESSAGES.c.alert_id == sa.bindparam("of")).values(fingerprint=sa.bindparam("is"))
)
