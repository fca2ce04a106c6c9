"""Experiments of the autotuner are kept."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
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
