"""pages of a large store; status of the live process"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.store.subject import host_of, job_of

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_CHUNK = 5_000

_DROPPED = (
    ("ix_alerts_state_severity", "alerts", ["state", "severity"]),
    ("ix_alerts_start", "alerts", ["start_ms"]),
    ("ix_reports_query_start", "reports", ["query", "start_ms"]),
    ("ix_reports_start", "reports", ["start_ms"]),
    ("ix_problems_last", "problems", ["last_ms"]),
    ("ix_late_events_seen", "late_events", ["seen_ms"]),
)
_CREATED = (
    ("ix_alerts_page", "alerts", ["start_ms", "id", "end_ms", "state", "merged_into"]),
    ("ix_alerts_page_state", "alerts", ["state", "start_ms", "id", "end_ms", "merged_into"]),
    ("ix_alerts_page_severity", "alerts", ["severity", "start_ms", "id", "end_ms", "state", "merged_into"]),
    ("ix_alerts_page_query", "alerts", ["query", "severity", "start_ms", "id", "end_ms", "state", "merged_into"]),
    ("ix_alerts_page_job", "alerts", ["job_id", "start_ms", "id"]),
    (
        "ix_alerts_page_host",
        "alerts",
        ["host", "start_ms", "id", "end_ms", "state", "severity", "query", "merged_into"],
    ),
    ("ix_alerts_length", "alerts", [sa.text("(end_ms - start_ms)")]),
    ("ix_reports_page", "reports", ["start_ms", "id", "end_ms"]),
    ("ix_reports_page_query", "reports", ["query", "start_ms", "id", "end_ms"]),
    ("ix_reports_length", "reports", [sa.text("(end_ms - start_ms)")]),
    ("ix_notifications_status_sequence", "notifications", ["status", "sequence", "receiver"]),
    ("ix_notifications_sequence", "notifications", ["sequence", "receiver"]),
    ("ix_problems_page", "problems", ["last_ms", "source", "place", "kind"]),
    ("ix_late_events_page", "late_events", ["seen_ms", "event_id", "source"]),
)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "source_status",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("interval_ms", sa.BigInteger(), nullable=False),
        sa.Column("watermark_ms", sa.BigInteger(), nullable=True),
        sa.Column("polled_ms", sa.BigInteger(), nullable=True),
        sa.Column("succeeded_ms", sa.BigInteger(), nullable=True),
        sa.Column("n_failed_in_a_row", sa.BigInteger(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("left_out", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_source_status")),
    )
    op.create_table(
        "process_status",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_process_status")),
    )
    # Nullable columns are added in place: nothing is copied.
    op.add_column("alerts", sa.Column("job_id", sa.Text(), nullable=True))
    op.add_column("alerts", sa.Column("host", sa.Text(), nullable=True))
    _fill_subjects()
    for name, table, _ in _DROPPED:
        op.drop_index(name, table_name=table)
    for name, table, columns in _CREATED:
        op.create_index(name, table, columns)


def downgrade() -> None:
    """Take back."""
    for name, table, _ in reversed(_CREATED):
        op.drop_index(name, table_name=table)
    for name, table, columns in _DROPPED:
        op.create_index(name, table, columns)
    op.drop_column("alerts", "host")
    op.drop_column("alerts", "job_id")
    op.drop_table("process_status")
    op.drop_table("source_status")


def _fill_subjects() -> None:
    """What existing alerts are about, from their key and values."""
    connection = op.get_bind()
    alerts = sa.table(
        "alerts",
        sa.column("id", sa.String()),
        sa.column("key", sa.JSON()),
        sa.column("values", sa.JSON()),
        sa.column("job_id", sa.Text()),
        sa.column("host", sa.Text()),
    )
    update = (
        alerts.update()
        .where(alerts.c.id == sa.bindparam("of_id"))
        .values(job_id=sa.bindparam("new_job_id"), host=sa.bindparam("new_host"))
    )
    last = ""
    while True:
        statement = sa.select(alerts.c.id, alerts.c.key, alerts.c["values"]).where(alerts.c.id > last)
        rows = connection.execute(statement.order_by(alerts.c.id).limit(_CHUNK)).all()
        if not rows:
            return
        found = [(alert_id, job_of(key, values), host_of(key, values)) for alert_id, key, values in rows]
        changes = [{"of_id": i, "new_job_id": job, "new_host": host} for i, job, host in found if job or host]
        if changes:
            connection.execute(update, changes)
        last = rows[-1][0]
