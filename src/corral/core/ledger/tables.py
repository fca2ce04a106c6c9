"""The current tables on disk. `migrations` has the steps that led to them.

Retention: nothing is deleted except tokens that ended long ago. A job that starts once costs about 1.6 KiB, including
its five journal entries. An environment is stored once, however many jobs share it.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
    literal_column,
)

REVISION = "0012"
"""The newest migration. A ledger with any other value must be migrated, or is from a newer Corral."""

metadata = MetaData()

# SQLite stores a table in the order of its key only if the type is spelled INTEGER.
_RowNumber = BigInteger().with_variant(Integer, "sqlite")

jobs = Table(
    "jobs",
    metadata,
    Column("sequence", _RowNumber, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("user", Text, nullable=False, comment="of the spec, for the index"),
    Column("name", Text, nullable=False, comment="of the spec, for the index"),
    Column("phase", Text, nullable=False),
    Column("array_id", Text),
    Column("array_index", BigInteger),
    Column("submitted_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("exit_code", BigInteger),
    Column("state", Text, nullable=False, comment="JSON of the other fields that change, defaults left out"),
    Column("environment", Text, comment="digest of the environment; null when it is empty"),
    Column("spec", Text, nullable=False, comment="JSON of the JobSpec without its environment, defaults left out"),
    UniqueConstraint("id", name="jobs_id"),
    Index("jobs_by_phase", "phase", "sequence"),
    Index("jobs_by_user", "user", "phase", "sequence"),
    Index("jobs_by_name", "name", "sequence"),
    Index("jobs_by_array", "array_id", "array_index"),
    Index("jobs_by_submission", "submitted_at"),
)
QUEUE: ColumnElement[str] = literal_column("coalesce(json_extract(spec, '$.queue'), 'default')")
"""The queue of a job. An index has exactly this expression."""
NAMESPACE: ColumnElement[str | None] = func.json_extract(jobs.c.spec, "$.pods[0][0]")
"""The namespace of a job's pods, null for a job that is no pod of others (`JobSpec.namespace`)."""
Index("jobs_by_queue", QUEUE, jobs.c.sequence)
Index("jobs_by_end", jobs.c.ended_at, sqlite_where=jobs.c.ended_at.is_not(None))

environments = Table(
    "environments",
    metadata,
    Column("digest", Text, primary_key=True, comment="BLAKE2b, 16 bytes in hex, of `variables`"),
    Column("variables", Text, nullable=False, comment="JSON list of [name, value]"),
)

allocations = Table(
    "allocations",
    metadata,
    Column("entry", _RowNumber, primary_key=True, autoincrement=False, comment="journal sequence of its beginning"),
    Column("id", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("reserved", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("ended_at", Float, comment="null while it holds its devices"),
    Column("placement", Text, nullable=False, comment="JSON"),
    Column("gpu_info", Text, comment="JSON"),
    Column("enforcement", Text, comment="JSON"),
    Column("project", Text, comment="of the job's spec, as the next two are, for sums over many"),
    Column("queue", Text),
    Column("mig_profile", Text),
    Column("gpu_milli", BigInteger, comment="of all its devices together"),
    Column("lost_from", Float, comment="what was done from then on is lost, as the job made room; null: nothing is"),
    Column(
        "unbilled_from", Float, comment="the time from then on is nobody's use, as a device fell sick; null: all is"
    ),
    Index("allocations_by_job", "job_id"),
    Index("allocations_by_end", "ended_at"),
)
FIRST_DEVICE: ColumnElement[str] = func.json_extract(allocations.c.placement, "$.members[0].grants[0].uuid")
"""The first device of an allocation, null if it has none."""
FIRST_SHARE: ColumnElement[int] = func.json_extract(allocations.c.placement, "$.members[0].grants[0].share_milli")
"""The share of its first device that an allocation has, in thousandths."""
# Only one allocation of an id holds devices at a time. The index also makes it quick to find the active allocations.
Index(
    "allocations_active",
    allocations.c.id,
    unique=True,
    sqlite_where=allocations.c.ended_at.is_(None),
)

latest_facts = Table(
    "latest_facts",
    metadata,
    Column("subject", Text, primary_key=True, comment="what the facts settle, such as the cordon of a device"),
    Column("entry", _RowNumber, nullable=False, comment="journal sequence of the last fact of this subject"),
)

journal = Table(
    "journal",
    metadata,
    Column("sequence", _RowNumber, primary_key=True, autoincrement=False, comment="from 1, without gaps"),
    Column("at", Float, nullable=False),
    Column("job_id", Text),
    Column("fact", Text, nullable=False),
    Column("body", Text, nullable=False, comment="JSON of the fact without the job's spec, defaults left out"),
    Column("environment", Text, comment="of the job's spec, as in jobs"),
    Column("spec", Text, comment="of the job, as in jobs"),
    Index("journal_by_job", "job_id", "sequence"),
)

experiments = Table(
    "experiments",
    metadata,
    Column("id", Text, primary_key=True),
    Column("task_id", Text, nullable=False),
    Column("number", BigInteger, nullable=False, comment="within the task, from 1"),
    Column("status", Text, nullable=False),
    Column("objective_score", Float, comment="lower is better"),
    Column("body", Text, nullable=False, comment="JSON of the other fields, defaults left out"),
    Column("metrics", Text, comment="JSON, apart because it is most of an experiment and listings do without"),
    Index("experiments_by_task", "task_id", "number", unique=True),
    Index("experiments_by_score", "task_id", "status", "objective_score"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", _RowNumber, primary_key=True),
    Column("digest", Text, nullable=False, unique=True, comment="SHA-256 of the secret, in hex"),
    Column("user", Text, nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("scope", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", Float, comment="null is never"),
    Column("revoked_at", Float),
    Column("last_used_at", Float, comment="written now and then"),
    Column("parent", BigInteger, comment="the token that it was made with"),
)

meta = Table(
    "meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

NEXT_ID = "next_id"
"""The row of `meta` with the least number that is not yet reserved for job ids."""
