"""What holds a job to its part of a device is kept with its allocation."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("allocations", sa.Column("enforcement", sa.Text))
