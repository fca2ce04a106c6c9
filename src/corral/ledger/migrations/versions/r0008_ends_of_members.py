"""How each member of a gang ended is in the journal: a server from before could not read it."""

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """No table changes: of gangs that ended before it is not known."""
