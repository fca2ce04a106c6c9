"""The time of an allocation that counts as nobody's use."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("allocations", sa.Column("unbilled_from", sa.Float))
