"""Dependencies have conditions, and jobs begin times and files for output: a server from before would misread them."""

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """No table changes: what was written before reads as it did."""
