"""What was lost of an allocation whose job had to make room is kept with it; of earlier ones nothing is known."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("allocations", sa.Column("lost_from", sa.Float))
