"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_row_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _create_jobs()
    _create_allocations()
    op.create_table(
        "environments",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("variables", sa.Text, nullable=False),
    )
    op.create_table(
        "cordons",
        sa.Column("uuid", sa.Text, primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_table(
        "journal",
        sa.Column("sequence", _row_number, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("job_id", sa.Text),
        sa.Column("fact", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("environment", sa.Text),
        sa.Column("spec", sa.Text),
    )
    op.create_index("journal_by_job", "journal", ["job_id", "sequence"])
    meta = op.create_table(
        "meta",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(meta, [{"name": "next_id", "value": 1}])


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("sequence", _row_number, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("array_id", sa.Text),
        sa.Column("array_index", sa.BigInteger),
        sa.Column("submitted_at", sa.Float, nullable=False),
        sa.Column("started_at", sa.Float),
        sa.Column("ended_at", sa.Float),
        sa.Column("exit_code", sa.BigInteger),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("environment", sa.Text),
        sa.Column("spec", sa.Text, nullable=False),
        sa.UniqueConstraint("id", name="jobs_id"),
    )
    op.create_index("jobs_by_phase", "jobs", ["phase", "sequence"])
    op.create_index("jobs_by_user", "jobs", ["user", "phase", "sequence"])
    op.create_index("jobs_by_name", "jobs", ["name", "sequence"])
    op.create_index("jobs_by_array", "jobs", ["array_id", "array_index"])


def _create_allocations() -> None:
    op.create_table(
        "allocations",
        sa.Column("entry", _row_number, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("reserved", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("ended_at", sa.Float),
        sa.Column("placement", sa.Text, nullable=False),
        sa.Column("gpu_info", sa.Text),
    )
    op.create_index("allocations_by_job", "allocations", ["job_id"])
    op.create_index(
        "allocations_active",
        "allocations",
        ["id"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
