"""Tokens belong to users, and are kept by the digests of their secrets."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_row_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
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
