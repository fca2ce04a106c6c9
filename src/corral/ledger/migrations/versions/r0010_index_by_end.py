"""Jobs are found by the time of their end."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_index("jobs_by_end", "jobs", ["ended_at"], sqlite_where=sa.text("ended_at IS NOT NULL"))
