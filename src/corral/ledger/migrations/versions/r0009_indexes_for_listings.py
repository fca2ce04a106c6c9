"""Jobs are found by their queue and by the time of their submission."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_index("jobs_by_submission", "jobs", ["submitted_at"])
    queue = sa.text("coalesce(json_extract(spec, '$.queue'), 'default')")
    op.create_index("jobs_by_queue", "jobs", [queue, "sequence"])
