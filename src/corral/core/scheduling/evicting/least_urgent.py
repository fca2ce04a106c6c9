"""How urgent the least urgent of the running jobs is: who is as urgent as that need not look for victims."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from corral.core.model.jobs.job import Job
from corral.core.model.queues.quota import Scope
from corral.core.scheduling.evicting.victims import Running


class LeastUrgent:
    """The priority of the least urgent running job, which is the highest number; each is worked out when first asked.

    It is good for one cycle: what runs must not change meanwhile.
    """

    def __init__(self, running: Callable[[], Iterable[Running]], scopes_of: Callable[[Job], Iterable[Scope]]) -> None:
        self._running = running
        self._scopes_of = scopes_of

    @cached_property
    def of_all(self) -> int | None:
        """That of all jobs, None where none runs."""
        return max((one.job.spec.priority for one in self._running()), default=None)

    @cached_property
    def by_scope(self) -> Mapping[Scope, int]:
        """That of the jobs which count to each scope; scopes to which none counts are absent."""
        found: dict[Scope, int] = {}
        for one in self._running():
            priority = one.job.spec.priority
            for scope in self._scopes_of(one.job):
                found[scope] = max(found.get(scope, priority), priority)
        return found
