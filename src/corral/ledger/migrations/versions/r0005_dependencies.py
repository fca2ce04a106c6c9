"""What jobs follow has conditions, and jobs have begin times: a server from before would misread both."""

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """No table changes: what was written before reads as it did."""
