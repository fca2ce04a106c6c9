"""What accounting sums up is kept with each allocation, and allocations are found by their end."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_jobs = sa.table("jobs", sa.column("id", sa.Text), sa.column("spec", sa.Text))
_allocations = sa.table(
    "allocations",
    *(sa.column(name, sa.Text) for name in ("job_id", "placement", "project", "queue", "mig_profile")),
    sa.column("entry", sa.Integer),
    sa.column("gpu_milli", sa.BigInteger),
)


def upgrade() -> None:
    for name in ("project", "queue", "mig_profile"):
        op.add_column("allocations", sa.Column(name, sa.Text))
    op.add_column("allocations", sa.Column("gpu_milli", sa.BigInteger))
    op.create_index("allocations_by_end", "allocations", ["ended_at"])
    _fill(op.get_bind())


def _fill(connection: sa.Connection) -> None:
    question = sa.select(_allocations.c.entry, _allocations.c.placement, _jobs.c.spec).join(
        _jobs, _jobs.c.id == _allocations.c.job_id, isouter=True
    )
    rows = [_filled(*row) for row in connection.execute(question)]
    if rows:
        # The columns to set are those that the rows name.
        connection.execute(sa.update(_allocations).where(_allocations.c.entry == sa.bindparam("at")), rows)


def _filled(entry: int, placement: str, spec_text: str | None) -> dict[str, object]:
    spec = None if spec_text is None else json.loads(spec_text)
    grants = [grant for member in json.loads(placement)["members"] for grant in member.get("grants", ())]
    return {
        "at": entry,
        "project": None if spec is None else spec.get("project", "default"),
        "queue": None if spec is None else spec.get("queue", "default"),
        "mig_profile": None if spec is None else spec.get("request", {}).get("mig_profile"),
        "gpu_milli": sum(grant["share_milli"] for grant in grants),
    }
