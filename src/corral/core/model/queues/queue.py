"""Queues, projects and pools, with the quotas of queues, projects and users."""

from dataclasses import dataclass, field
from typing import Annotated

from corral.core.model.field import Field
from corral.core.model.jobs.site_faults import OnFault

DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits on what may be allocated at once; None is no limit.

    `gpu_hours` is per `period_s`. `borrow_milli` is how far above `share_milli` idle capacity may be borrowed.
    """

    devices: Annotated[int | None, Field(least=0, most=1_000_000)] = None
    share_milli: Annotated[int | None, Field(key="gpus")] = None
    memory_mib: Annotated[int | None, Field(least=1, most=2**40)] = None
    running: Annotated[int | None, Field(least=0, most=10_000_000)] = None
    waiting: Annotated[int | None, Field(least=0, most=10_000_000)] = None
    gpu_hours: Annotated[float | None, Field(least=0, most=1e9)] = None
    period_s: Annotated[float | None, Field(least=3600.0, most=31 * DAY_S)] = None
    borrow_milli: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the site; None is no limit.

    Attributes:
        max_running_jobs: jobs that Corral starts; reservations do not count.
        of_user: the quota of each user over all projects.
        max_queue_size: the most jobs that may wait or run; further jobs are refused.
        max_time_limit_s: the longest time limit; a job that names none has it.
        default_priority, default_retries: the values for a job that names none.
        default_checkpoint_every_s: how often a job that names no interval gets its checkpoint signal; None is never.
        priority_range: the least and the greatest priority that a job may name; administrators may name any.
        pass_unknown_limit_s: a job with at most this time limit may start before a job whose start nobody can predict;
            0 lets none.
        pass_unknown_until_s: once that job has waited this long, no more jobs may.
        power_budget_w: the most that the power limits of all devices with jobs may add up to.
        site_retries: how often a job is requeued because one of its devices fell sick.
        pack_jobs: the most packable jobs of one user and program that share a device; 1 packs none.
        pack_slowdown: fewer share one if runs together take more than this many times as long as runs alone.
    """

    max_running_jobs: int | None = None
    of_user: Quota = field(default_factory=Quota)
    max_queue_size: int | None = None
    max_time_limit_s: float | None = None
    default_priority: int = 5
    default_retries: int = 0
    default_checkpoint_every_s: float | None = None
    priority_range: tuple[int, int] | None = None
    pass_unknown_limit_s: float = 0.0
    pass_unknown_until_s: float = 0.0
    power_budget_w: int | None = None
    site_retries: int = 3
    pack_jobs: int = 2
    pack_slowdown: float = 1.25

    def may_pass(self, time_limit_s: float | None) -> bool:
        """Whether a job with this time limit may start before one whose start nobody can predict."""
        return time_limit_s is not None and time_limit_s <= self.pass_unknown_limit_s

    def may_be_passed(self, since: float, now: float) -> bool:
        """Whether jobs may still pass one that has waited since `since` with an unpredictable start, at `now`."""
        return self.pass_unknown_limit_s > 0 and now < since + self.pass_unknown_until_s


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of jobs with its order and limits. `parent` is the queue above it, `weight` its part in a fair share.

    Attributes:
        policy: the name of the policy that orders it.
        preempts: its first job may stop less urgent jobs; None if neither its own settings nor the site's say so.
        backfill: the name of the rule for jobs behind one that cannot start, if it is not the policy's.
        spared_s: the run time for which its jobs are not stopped for others, if the policy names none.
        on_fault: what becomes of its jobs that say nothing when one of their devices falls sick; None is by their
            retries and checkpoints.
    """

    name: str
    policy: str = "priority"
    weight: Annotated[float, Field(above=0)] = 1.0
    parent: str | None = None
    quota: Quota = field(default_factory=Quota)
    preempts: bool | None = None
    backfill: str | None = None
    spared_s: Annotated[float | None, Field(least=0, most=365 * DAY_S)] = None
    on_fault: OnFault | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """Devices set apart for some users and projects. All users may use devices that are in no pool.

    With `lends`, others may use the owners' idle devices; their jobs are stopped when an owner wants the devices back.

    Attributes:
        gpus: the devices, in the syntax of `corral.core.model.devices.set_apart`. The view has the matching devices.
        part: instead of `gpus`, a part of all GPUs, from 0 to 1.
    """

    name: str
    gpus: tuple[str, ...]
    users: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    lends: bool = False
    part: float | None = None

    def owned_by(self, user: str, project: str) -> bool:
        """Whether jobs of this user in this project may use the pool as owners."""
        return user in self.users or project in self.projects


@dataclass(frozen=True, slots=True)
class Project:
    """Users who work together; `weight` is the project's part in a fair share.

    `user_weights` are the parts of users in the project's own share; a user without a weight has 1.
    """

    name: str
    weight: Annotated[float, Field(above=0)] = 1.0
    users: tuple[str, ...] = ()
    quota: Quota = field(default_factory=Quota)
    user_weights: tuple[tuple[str, float], ...] = ()
