"""Conversion of jobs, allocations and facts to rows of the tables, and back.

JSON is ASCII, so that text which is not UTF-8 is kept exactly: an argument or a variable of a process may hold any
byte.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple

from corral.core.model.devices.means import Enforcement
from corral.core.model.errors import LedgerFailed, Refused
from corral.core.model.fact import Fact, JobRequeued, JobSubmitted, ServerPart, UnknownFact, fact_class
from corral.core.model.jobs.job import ONE_DEVICE, Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, GpuInfo, Grant, Member, Placement
from corral.core.model.runs.packing import PackedAttempt
from corral.core.model.runs.prediction import AMOUNTS, JobGroup, groups_by, program_among
from corral.core.model.runs.run_history import AllocatedTime, HeldAllocation, PastRun
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.ports.ledger import JournalEntry
from corral.wire import from_plain, to_plain

Row = dict[str, Any]
Stored = Mapping[Any, Any]
Variables = tuple[tuple[str, str], ...]
Environments = Mapping[str, Variables]

_COLUMNS = (
    "id", "sequence", "phase", "array_id", "array_index", "submitted_at", "started_at", "ended_at", "exit_code",
)  # fmt: skip


class _Fields(NamedTuple):
    """Some fields of a class: a function that gets them all from a value, their names, and their defaults."""

    values_of: Callable[[Any], tuple[Any, ...]]
    names: tuple[str, ...]
    defaults: tuple[Any, ...]


def _some_fields(defaults: Mapping[str, Any]) -> _Fields:
    return _Fields(attrgetter(*defaults), tuple(defaults), tuple(defaults.values()))


_OF_JOB = _some_fields(
    {f.name: f.default for f in fields(Job) if f.name not in ("id", "sequence", "array_index", "spec")}
)
_OF_STATE = _some_fields({f.name: f.default for f in fields(Job) if f.name not in ("spec", *_COLUMNS)})
_OF_SPEC = _some_fields(
    {f.name: getattr(JobSpec(""), f.name) for f in fields(JobSpec) if f.name not in ("user", "env")}
)

_NO_SPEC: Row = {"spec": None, "environment": None}

_SCALARS = frozenset({str, int, float, bool, type(None)})

_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Environment:
    """A stored environment: `text` is JSON, `digest` its name."""

    digest: str
    text: str


@lru_cache(maxsize=64)
def environment_of(variables: Variables) -> Environment | None:
    """The stored form of these variables, None if there are none."""
    if not variables:
        return None
    text = _encode(variables)
    return Environment(blake2b(text.encode(), digest_size=16).hexdigest(), text)


def variables_of(text: str) -> Variables:
    """The variables that `environment_of` made this text from."""
    return tuple((name, value) for name, value in json.loads(text))


@lru_cache(maxsize=64)
def spec_row(spec: JobSpec) -> Row:
    """The columns `spec` and `environment` that jobs and journal have of a spec."""
    environment = environment_of(spec.env)
    return {
        "spec": _encode({"user": spec.user, **_plain(_OF_SPEC.values_of(spec), _OF_SPEC)}),
        "environment": environment and environment.digest,
    }


def job_row(job: Job, spec: Row) -> Row:
    """The complete row of a job; `spec` is the `spec_row` of its spec."""
    return {
        "sequence": job.sequence,
        "id": job.id,
        "user": stored_text(job.spec.user),
        "name": stored_text(job.spec.name),
        "array_id": job.array_id,
        "array_index": job.array_index,
        "submitted_at": job.submitted_at,
        "environment": spec["environment"],
        "spec": spec["spec"],
        **_progress(job),
        "state": _state_of(_OF_STATE.values_of(job)),
    }


def respecified_row(job: Job) -> Row:
    """The columns of a job that may differ after a change of its spec."""
    return {"name": stored_text(job.spec.name), "spec": spec_row(job.spec)["spec"]}


def stored_text(value: str | None) -> str | None:
    """Text that a database accepts: characters that are not UTF-8 become escapes."""
    if value is None or value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode()


def job_state(job: Job) -> Row:
    """The columns of a job that may change during its life."""
    return {**_progress(job), "state": _encode(_plain(_OF_STATE.values_of(job), _OF_STATE))}


def _progress(job: Job) -> Row:
    return {
        "phase": job.phase.value,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "exit_code": job.exit_code,
    }


@lru_cache(maxsize=8)
def _state_of(values: tuple[Any, ...]) -> str:
    """The column `state` of a new job, cached because most jobs of a batch have the same."""
    return _encode(_plain(values, _OF_STATE))


def job_of(row: Stored, environments: Environments) -> Job:
    """The job of a row of `jobs`. Raises LedgerFailed when the row is damaged."""
    try:
        plain = {name: row[name] for name in _COLUMNS} | json.loads(row["state"])
        job = from_plain(Job, {**plain, "spec": json.loads(row["spec"])})
        if row["environment"] is not None:
            # The job is not shared yet, so it may be changed. A second copy of each job would take a fifth of a long
            # listing's time.
            object.__setattr__(job.spec, "env", environments[row["environment"]])
        return job
    except (Refused, ValueError, TypeError, KeyError) as error:
        raise damaged(f"job {row['id']}", error) from error


def allocation_row(allocation: Allocation, entry: int, ended_at: float | None, job: Job | None) -> Row:
    """The row of a job's allocation; `entry` is the journal sequence of its beginning."""
    spec = None if job is None else job.spec
    enforcement = allocation.enforcement
    return {
        "entry": entry,
        "id": allocation.id,
        "job_id": allocation.job_id,
        "user": stored_text(allocation.user),
        "attempt": allocation.attempt,
        "reserved": allocation.reserved,
        "created_at": allocation.created_at,
        "ended_at": ended_at,
        **devices_row(allocation),
        "enforcement": None if enforcement is None else _encode(to_plain(enforcement, compact=True)),
        "project": stored_text(None if spec is None else spec.project),
        "queue": stored_text(None if spec is None else spec.queue),
        "mig_profile": stored_text(None if spec is None else spec.request.mig_profile),
        "gpu_milli": _used_milli(allocation, sliced=spec is not None and spec.request.mig_profile is not None),
        "lost_from": None,
        "unbilled_from": None,
    }


def devices_row(allocation: Allocation) -> Row:
    """The columns of an allocation that differ after its devices were exchanged."""
    info = allocation.gpu_info
    return {
        "placement": _encode(to_plain(allocation.placement, compact=True)),
        "gpu_info": None if info is None else _encode(to_plain(info, compact=True)),
    }


def _used_milli(allocation: Allocation, *, sliced: bool) -> int:
    """The milli-GPU that the allocation counts as usage. Slices count whole: their hours are summed by profile."""
    grants = allocation.placement.grants
    return sum(grant.share_milli if sliced else grant.counted_milli for grant in grants)


def allocation_of(row: Stored) -> Allocation:
    """The allocation of a row of `allocations`. Raises LedgerFailed when the row is damaged."""
    try:
        info, enforcement = row["gpu_info"], row["enforcement"]
        return Allocation(
            id=row["id"],
            job_id=row["job_id"],
            user=row["user"],
            placement=from_plain(Placement, json.loads(row["placement"])),
            created_at=row["created_at"],
            attempt=row["attempt"],
            reserved=bool(row["reserved"]),
            gpu_info=None if info is None else from_plain(GpuInfo, json.loads(info)),
            enforcement=None if enforcement is None else from_plain(Enforcement, json.loads(enforcement)),
        )
    except (Refused, ValueError, TypeError) as error:
        raise damaged(f"allocation {row['id']}", error) from error


OF_LAST_ALLOCATION = ("id", "job_id", "user", "placement", "created_at", "attempt", "reserved", "enforcement")
"""The columns that `last_allocation_of` reads."""


def last_allocation_of(row: Sequence[Any]) -> Allocation:
    """The allocation from the `OF_LAST_ALLOCATION` columns, without `gpu_info`. Raises LedgerFailed if damaged.

    It serves listings, which need thousands of them, so it checks nothing but the names of fields.
    """
    allocation_id, job_id, user, placement, created_at, attempt, reserved, enforcement = row
    try:
        members = tuple(map(_member_of, json.loads(placement)["members"]))
        behind = _enforcement_of(enforcement)
        return Allocation(
            allocation_id, job_id, user, Placement(members), created_at, attempt, bool(reserved), None, behind
        )
    except (Refused, ValueError, TypeError, KeyError) as error:
        raise damaged(f"allocation {allocation_id}", error) from error


def _member_of(plain: Row) -> Member:
    plain["grants"] = tuple(Grant(**grant) for grant in plain.get("grants", ()))
    return Member(**plain)


@lru_cache(maxsize=64)
def _enforcement_of(text: str | None) -> Enforcement | None:
    return None if text is None else from_plain(Enforcement, json.loads(text))


def allocated_time_of(row: Stored) -> AllocatedTime:
    """The sums over one group of allocations. Raises LedgerFailed when a row of them is damaged."""
    try:
        enforcement = row["enforcement"]
        return AllocatedTime(
            user=row["user"],
            project=row["project"] or JobSpec(user="").project,
            queue=row["queue"] or JobSpec(user="").queue,
            mig_profile=row["mig_profile"],
            enforcement=None if enforcement is None else from_plain(Enforcement, json.loads(enforcement)),
            gpu_s=row["milli_s"] / MILLI_PER_DEVICE,
            allocations=row["allocations"],
            lost_gpu_s=row["lost_milli_s"] / MILLI_PER_DEVICE,
        )
    except (Refused, ValueError, TypeError) as error:
        raise damaged(f"allocations of {row['user']}", error) from error


def held_allocation_of(row: Any, *, failed_from: float | None) -> HeldAllocation:
    """An allocation joined to its job; from `failed_from` on its time was in vain. Raises LedgerFailed."""
    try:
        members = _members_of(row.placement)
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(f"allocation {row.id}", error) from error
    return HeldAllocation(
        row.id,
        row.job_id,
        row.name,
        row.user,
        row.project or JobSpec(user="").project,
        row.queue or JobSpec(user="").queue,
        row.created_at,
        None if row.ended_at is None else min(row.ended_at, row.counts_until),
        members,
        bool(row.reserved),
        row.lost_from if failed_from is None else max(failed_from, row.created_at),
        _names_of(row.models),
        row.namespace,
    )


@lru_cache(maxsize=4096)
def _names_of(models: str) -> tuple[str, ...]:
    """The names in a JSON list, cached because many allocations have the same."""
    return tuple(json.loads(models))


@lru_cache(maxsize=4096)
def _members_of(placement: str) -> tuple[Member, ...]:
    """The members of a placement, cached because many allocations have the same devices."""
    return tuple(map(_member_of, json.loads(placement)["members"]))


def _groups_of(name: str, spec: Mapping[str, Any]) -> tuple[JobGroup, ...]:
    """The groups of a job, by its stored spec, which leaves out defaults."""
    request = spec.get("request", {})
    amounts = tuple(request.get(field, getattr(ONE_DEVICE, field)) for field in AMOUNTS)
    return groups_by(name, spec.get("command", ()), amounts, request.get("models", ()))


def past_run_of(row: Stored) -> PastRun:
    """The run of a row of `allocations` that has ended, joined to its job. Raises LedgerFailed when it is damaged."""
    try:
        spec = json.loads(row["spec"])
        members = json.loads(row["placement"])["members"]
        grants = [grant for member in members for grant in member.get("grants", ())]
        milli = sum(grant.get("counts_milli") or grant["share_milli"] for grant in grants)
        ran_from, ran_until = row["ran_from"], row["ran_until"]
        succeeded = row["phase"] == Phase.SUCCEEDED.value and ran_from is not None and ran_until is not None
        last = succeeded and row["created_at"] <= ran_from <= row["ended_at"]
        groups = _groups_of(row["name"], spec)
        program = program_among(groups) if spec.get("packable") and len(grants) == 1 else None
        return PastRun(
            user=row["user"],
            project=spec.get("project", "default"),
            queue=spec.get("queue", "default"),
            groups=groups if last else (),
            gpus=milli / MILLI_PER_DEVICE,
            created_at=row["created_at"],
            ended_at=row["ended_at"] if row["unbilled_from"] is None else min(row["ended_at"], row["unbilled_from"]),
            ran_s=max(0.0, ran_until - ran_from) if last else None,
            job_id=row["job_id"],
            packed=None if program is None else PackedAttempt(program, grants[0]["uuid"]),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise damaged(f"a past run of job {row['job_id']}", error) from error


def journal_rows(first: int, facts: Iterable[Fact]) -> list[Row]:
    """Journal rows, numbered from `first`. If a fact carries a job, the job's spec is in columns of its own."""
    # Specs are looked up by identity: jobs of an array share one, and hashing it takes longer than writing it.
    specs: dict[int, Row] = {}
    rows = []
    for sequence, fact in enumerate(facts, first):
        name, spec = type(fact).__name__, _NO_SPEC
        if isinstance(fact, JobSubmitted | JobRequeued):
            job = fact.job
            spec = specs.get(id(job.spec)) or specs.setdefault(id(job.spec), spec_row(job.spec))
            alike = _alike_of(name, fact.at, fact.by, _OF_JOB.values_of(job))
            index = "" if job.array_index is None else f',"array_index":{job.array_index:d}'
            body = f'{alike}"id":{_encode(job.id)},"sequence":{job.sequence:d}{index}}}}}'
        else:
            body = _encode(fact_to_plain(fact))
        rows.append({"sequence": sequence, "at": fact.at, "job_id": fact.about, "fact": name, "body": body, **spec})
    return rows


@lru_cache(maxsize=8)
def _alike_of(fact: str, at: float, by: str, values: tuple[Any, ...]) -> str:
    """The beginning of the body of a new job's fact, cached because most jobs of a batch have the same."""
    alike = _encode({"fact": fact, "at": at, "by": by, "job": _plain(values, _OF_JOB)})
    return alike[:-2] if alike.endswith("{}}") else f"{alike[:-2]},"


def entry_of(row: Stored, environments: Environments) -> JournalEntry:
    """The entry of a row of `journal`. Raises LedgerFailed when the row is damaged, or a newer Corral wrote it."""
    try:
        plain = json.loads(row["body"])
        if row["spec"] is not None:
            plain["job"]["spec"] = json.loads(row["spec"])
        fact = fact_from_plain(plain)
        if isinstance(fact, JobSubmitted | JobRequeued):
            fact = replace(fact, job=_with_environment(fact.job, row["environment"], environments))
        return JournalEntry(row["sequence"], row["at"], fact)
    except UnknownFact as error:
        raise LedgerFailed(
            f"journal entry {row['sequence']} is of the kind {error}, which this version of Corral does not know: "
            "a newer one wrote it; use that"
        ) from error
    except (Refused, ValueError, TypeError, KeyError) as error:
        raise damaged(f"journal entry {row['sequence']}", error) from error


def digests(rows: Iterable[Stored]) -> Sequence[str]:
    """The digests of the environments that these rows name, each once, in order."""
    return list(dict.fromkeys(row["environment"] for row in rows if row["environment"] is not None))


def _plain(values: tuple[Any, ...], of: _Fields) -> Row:
    """Compact plain data of these fields, without those that have their default value."""
    return {
        name: item if type(item) in _SCALARS else to_plain(item, compact=True)
        for name, default, item in zip(of.names, of.defaults, values, strict=True)
        # The value is nearly always the default object itself, so the identity test saves a comparison.
        if item is not default and item != default
    }


def _with_environment(job: Job, digest: str | None, environments: Environments) -> Job:
    return job if digest is None else replace(job, spec=replace(job.spec, env=environments[digest]))


def damaged(what: str, error: Exception) -> LedgerFailed:
    """The error for a row that cannot be read."""
    return LedgerFailed(
        f"the ledger's {what} cannot be read ({type(error).__name__}: {error}); it is damaged. "
        "Stop the server and put a backup of the ledger in its place"
    )


def fact_to_plain(fact: Fact) -> dict[str, Any]:
    """Compact plain data of a fact, with its class name under "fact"."""
    return {"fact": type(fact).__name__, **to_plain(fact, compact=True)}


def fact_from_plain(data: Mapping[str, Any]) -> Fact:
    """The fact that `fact_to_plain` turned into this data. Raises Refused and UnknownFact.

    Fact classes of features are known once their modules are imported: `corral.features.feature_list.slices` does.
    Journals of format 0006 and earlier name the author of a fact only for cordons.
    """
    body = {"by": ServerPart.UNRECORDED.value, **data}
    return from_plain(fact_class(body.pop("fact")), body)
