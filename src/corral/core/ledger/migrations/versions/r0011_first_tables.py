"""The oldest tables that a later version migrates; ten steps led to them before the first release."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = None

_row_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _create_jobs()
    _create_allocations()
    _create_journal()
    _create_experiments()
    _create_tokens()
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
    op.create_index("jobs_by_submission", "jobs", ["submitted_at"])
    queue = sa.text("coalesce(json_extract(spec, '$.queue'), 'default')")
    op.create_index("jobs_by_queue", "jobs", [queue, "sequence"])
    op.create_index("jobs_by_end", "jobs", ["ended_at"], sqlite_where=sa.text("ended_at IS NOT NULL"))
    op.create_table(
        "environments",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("variables", sa.Text, nullable=False),
    )


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
        sa.Column("enforcement", sa.Text),
        sa.Column("project", sa.Text),
        sa.Column("queue", sa.Text),
        sa.Column("mig_profile", sa.Text),
        sa.Column("gpu_milli", sa.BigInteger),
        sa.Column("lost_from", sa.Float),
    )
    op.create_index("allocations_by_job", "allocations", ["job_id"])
    op.create_index("allocations_by_end", "allocations", ["ended_at"])
    op.create_index("allocations_active", "allocations", ["id"], unique=True, sqlite_where=sa.text("ended_at IS NULL"))


def _create_journal() -> None:
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
    op.create_table(
        "latest_facts",
        sa.Column("subject", sa.Text, primary_key=True),
        sa.Column("entry", _row_number, nullable=False),
    )


def _create_experiments() -> None:
    op.create_table(
        "experiments",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("objective_score", sa.Float),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("metrics", sa.Text),
    )
    op.create_index("experiments_by_task", "experiments", ["task_id", "number"], unique=True)
    op.create_index("experiments_by_score", "experiments", ["task_id", "status", "objective_score"])


def _create_tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", _row_number, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("uid", sa.BigInteger, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Float),
        sa.Column("revoked_at", sa.Float),
        sa.Column("last_used_at", sa.Float),
        sa.Column("parent", sa.BigInteger),
    )
