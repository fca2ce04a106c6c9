"""Where jobs wait, and what the owner of a queue, a project or a user may hold."""

from dataclasses import dataclass, field
from typing import Annotated

from corral.core.model.field import Field

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
        of_user: what each single user may hold, whatever the project.
        max_queue_size: jobs that may wait or run; further ones are refused.
        max_time_limit_s: the longest time limit; a job that names none has it.
        default_priority, default_retries: of a job that names none.
        priority_range: the least and the greatest priority that a job may name; administrators may name any.
        pass_unknown_limit_s: a job with at most this time limit may start before a job whose start nobody can predict;
            0 lets none.
        pass_unknown_until_s: that job has been waiting so long when no more may.
    """

    max_running_jobs: int | None = None
    of_user: Quota = field(default_factory=Quota)
    max_queue_size: int | None = None
    max_time_limit_s: float | None = None
    default_priority: int = 5
    default_retries: int = 0
    priority_range: tuple[int, int] | None = None
    pass_unknown_limit_s: float = 0.0
    pass_unknown_until_s: float = 0.0

    def may_pass(self, time_limit_s: float | None) -> bool:
        """Whether a job with this time limit may start before one whose start nobody can predict."""
        return time_limit_s is not None and time_limit_s <= self.pass_unknown_limit_s

    def may_be_passed(self, since: float, now: float) -> bool:
        """Whether a job whose start nobody can predict may still be passed at `now`, if it has waited since then."""
        return self.pass_unknown_limit_s > 0 and now < since + self.pass_unknown_until_s


@dataclass(frozen=True, slots=True)
class Queue:
    """A named line of jobs with its order and its limits; `parent` nests it. `weight` is its part in a fair share.

    Attributes:
        policy: the name of the policy it is served by.
        preempts: its head may have less urgent jobs ended; None where its own lines do not say so, nor the site's.
        backfill: what may start behind a job without a place, by name, where that is not as the policy has it.
        spared_s: none of its jobs is ended for others before it has run so long, where the policy does not say.
    """

    name: str
    policy: str = "priority"
    weight: Annotated[float, Field(above=0)] = 1.0
    parent: str | None = None
    quota: Quota = field(default_factory=Quota)
    preempts: bool | None = None
    backfill: str | None = None
    spared_s: Annotated[float | None, Field(least=0, most=365 * DAY_S)] = None


@dataclass(frozen=True, slots=True)
class Pool:
    """Devices set apart for some users and projects; what is in no pool is everybody's.

    With `lends`, others may use what its owners leave idle, and are ended when an owner wants it back.

    Attributes:
        gpus: which devices, as `corral.core.model.devices.set_apart` reads it. The view knows which those are.
        part: in place of `gpus`, which part of all GPUs, from 0 to 1.
    """

    name: str
    gpus: tuple[str, ...]
    users: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    lends: bool = False
    part: float | None = None

    def owned_by(self, user: str, project: str) -> bool:
        """Whether work of this user in this project is the pool's own."""
        return user in self.users or project in self.projects


@dataclass(frozen=True, slots=True)
class Project:
    """Users who work together; `weight` is their part in a fair share.

    `user_weights` are the parts that users have in the project's own, 1 where they have none there.
    """

    name: str
    weight: Annotated[float, Field(above=0)] = 1.0
    users: tuple[str, ...] = ()
    quota: Quota = field(default_factory=Quota)
    user_weights: tuple[tuple[str, float], ...] = ()
