"""silences with matchers over labels, a start, and times at which they recur; what was done to each"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_SILENCES = sa.table(
    "silences",
    sa.column("id", sa.BigInteger()),
    sa.column("query", sa.Text()),
    sa.column("key_text", sa.Text()),
    sa.column("created_ms", sa.BigInteger()),
    sa.column("starts_ms", sa.BigInteger()),
    sa.column("matchers", sa.JSON()),
    sa.column("recurrence", sa.JSON()),
)


_MAX_CHARS = 200
"""Of a label."""


def upgrade() -> None:
    """Apply: what was silenced by query and key is silenced by the labels that alerts have of them."""
    with op.batch_alter_table("silences") as batch:
        batch.add_column(sa.Column("matchers", sa.JSON(), server_default="[]", nullable=False))
        batch.add_column(sa.Column("starts_ms", sa.BigInteger(), server_default="0", nullable=False))
        batch.add_column(sa.Column("recurrence", sa.JSON(), server_default="[]", nullable=False))
        batch.add_column(sa.Column("revision", sa.BigInteger(), server_default="1", nullable=False))
    connection, s = op.get_bind(), _SILENCES.c
    for number, query, key_text, created_ms in connection.execute(
        sa.select(s.id, s.query, s.key_text, s.created_ms)
    ).all():
        values = {"matchers": _matchers(query, key_text), "starts_ms": created_ms}
        connection.execute(_SILENCES.update().where(s.id == number).values(**values))
    op.drop_index("ix_silences_query_until", "silences")
    with op.batch_alter_table("silences") as batch:
        batch.drop_column("query")
        batch.drop_column("key_text")
    op.create_index("ix_silences_until", "silences", ["until_ms"])
    op.create_table(
        "silence_changes",
        sa.Column("silence_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["silence_id"], ["silences.id"], name=op.f("fk_silence_changes_silence_id_silences"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("silence_id", "revision", name=op.f("pk_silence_changes")),
    )


def downgrade() -> None:
    """Take back: earlier versions know silences of a whole query only; others end: nothing stays hidden."""
    op.drop_table("silence_changes")
    op.drop_index("ix_silences_until", "silences")
    with op.batch_alter_table("silences") as batch:
        batch.add_column(sa.Column("query", sa.Text(), server_default="", nullable=False))
        batch.add_column(sa.Column("key_text", sa.Text(), nullable=True))
    connection, s = op.get_bind(), _SILENCES.c
    for number, matchers, recurrence in connection.execute(sa.select(s.id, s.matchers, s.recurrence)).all():
        is_of_query = len(matchers) == 1 and matchers[0][:2] == ["alertname", "="]
        if is_of_query and not recurrence:
            connection.execute(_SILENCES.update().where(s.id == number).values(query=matchers[0][2]))
        else:
            connection.execute(_SILENCES.delete().where(s.id == number))
    with op.batch_alter_table("silences") as batch:
        for name in ("matchers", "starts_ms", "recurrence", "revision"):
            batch.drop_column(name)
        batch.alter_column("query", server_default=None)
    op.create_index("ix_silences_query_until", "silences", ["query", "until_ms"])


def _matchers(query: str, key_text: str | None) -> list[list[str]]:
    """What cannot be read as a key matches no alert: rather is somebody told than nobody."""
    found = [["alertname", "=", query]]
    if key_text is None:
        return found
    try:
        key = json.loads(key_text)
    except ValueError:
        key = None
    if not isinstance(key, dict):
        return [*found, ["key", "=", key_text or "unknown"]]
    named = ((_storable(str(name)), "=", _plain(value)) for name, value in sorted(key.items()))
    return [*found, *(list(matcher) for matcher in named if matcher[0] not in ("alertname", "severity"))]


def _plain(value: object) -> str:
    """As labels have it: one short line without control characters."""
    if value is None:
        return "unknown"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    line = "".join(c if c.isprintable() else " " for c in text)
    return _storable(line if len(line) <= _MAX_CHARS else line[: _MAX_CHARS - 1] + "…")


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")
