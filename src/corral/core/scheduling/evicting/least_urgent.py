"""Finds the priority of the least urgent running job. A job that is no more urgent need not look for victims."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from corral.core.model.jobs.job import Job
from corral.core.model.queues.quota import Scope
from corral.core.scheduling.evicting.victims import Running


class LeastUrgent:
    """The priority of the least urgent running job, which is the highest number. Each value is computed on first use.

    An object is valid for one cycle: the running jobs must not change meanwhile.
    """

    def __init__(self, running: Callable[[], Iterable[Running]], scopes_of: Callable[[Job], Iterable[Scope]]) -> None:
        self._running = running
        self._scopes_of = scopes_of

    @cached_property
    def of_all(self) -> int | None:
        """The priority of the least urgent of all running jobs; None if no job runs."""
        return max((one.job.spec.priority for one in self._running()), default=None)

    @cached_property
    def by_scope(self) -> Mapping[Scope, int]:
        """The same for the jobs that count against each scope. Scopes without a running job are absent."""
        found: dict[Scope, int] = {}
        for one in self._running():
            priority = one.job.spec.priority
            for scope in self._scopes_of(one.job):
                found[scope] = max(found.get(scope, priority), priority)
        return found
