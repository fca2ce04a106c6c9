"""Which fact is the last of its subject is kept for any subject; before, there was a table of cordons."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_row_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    latest = op.create_table(
        "latest_facts",
        sa.Column("subject", sa.Text, primary_key=True),
        sa.Column("entry", _row_number, nullable=False),
    )
    entries = op.get_bind().execute(
        sa.text(
            "SELECT sequence, body FROM journal WHERE fact IN ('DeviceCordoned', 'DeviceUncordoned') ORDER BY sequence"
        )
    )
    last = {f"cordon of device {json.loads(body)['uuid']}": sequence for sequence, body in entries}
    if last:
        op.bulk_insert(latest, [{"subject": subject, "entry": entry} for subject, entry in last.items()])
    op.drop_table("cordons")
