"""The rows of `corral queues`: each queue with its quota, its use, and the part left to the caller."""

from collections import Counter
from collections.abc import Iterator

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.control.querying.outlooks import Outlooks
from corral.core.control.submitting.site_rules import refuse_project
from corral.core.model.answers.site import QueueRow
from corral.core.model.jobs.phase import Phase
from corral.core.model.queues.queue import Project, Queue
from corral.core.model.queues.quota import UNLIMITED, Scope, ancestry
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger
from corral.core.scheduling.queueing.admission import Admission


class QueueListing:
    """Lists queues. Thread-safe."""

    def __init__(self, ledger: Ledger, clock: Clock, outlooks: Outlooks) -> None:
        self._ledger = ledger
        self._clock = clock
        self._outlooks = outlooks

    def rows(self, caller: Caller, project: str) -> list[QueueRow]:
        """Return the caller's own limits, those of their projects, and all queues, each above its sub-queues.

        Queues that were removed with jobs in them come last.

        `left_milli` of a queue is the part that a job of the caller in this project may have there. Raises Refused,
        Forbidden.
        """
        refuse_project(self._ledger.view(), project, caller.user)
        with self._outlooks.current() as outlook:
            admission = outlook.planner.admission(self._clock.now())
            return list(_rows(outlook.view, admission, _waiting(outlook.view), caller, project))


def _rows(
    view: View, admission: Admission, waiting: Counter[Scope], caller: Caller, project: str
) -> Iterator[QueueRow]:
    user = caller.user
    own = Scope("user", user)
    if view.limits.of_user != UNLIMITED:
        left = admission.left_milli(user=user, project="", queue="")
        yield QueueRow(user, "user", None, view.limits.of_user, admission.used(own).milli, waiting[own], left)
    for one in view.projects.values():
        if one.quota != UNLIMITED and _may_see(caller, one):
            scope = Scope("project", one.name)
            left = admission.left_milli(user=user, project=one.name, queue="")
            yield QueueRow(one.name, "project", None, one.quota, admission.used(scope).milli, waiting[scope], left)
    for queue in _in_tree_order(view):
        scope = Scope("queue", queue.name)
        left = admission.left_milli(user=user, project=project, queue=queue.name)
        used_milli = admission.used(scope).milli
        yield QueueRow(
            queue.name, "queue", queue.parent, queue.quota, used_milli, waiting[scope], left, policy=queue.policy
        )
    for name in _removed(view):
        scope = Scope("queue", name)
        used_milli = admission.used(scope).milli
        yield QueueRow(name, used_milli=used_milli, waiting=waiting[scope], left_milli=0, removed=True)


def _removed(view: View) -> list[str]:
    """Return the names of removed queues that still have unfinished jobs."""
    named = {job.spec.queue for job in view.jobs.values() if not job.phase.terminal}
    return sorted(named - view.queues.keys())


def _may_see(caller: Caller, project: Project) -> bool:
    return caller.admin or caller.overseer or not project.users or caller.user in project.users


def _in_tree_order(view: View) -> Iterator[Queue]:
    """Yield each queue, directly followed by its sub-queues."""

    below: dict[str | None, list[Queue]] = {}
    for queue in view.queues.values():
        below.setdefault(queue.parent if queue.parent in view.queues else None, []).append(queue)
    waiting = below.get(None, [])[::-1]
    while waiting:
        queue = waiting.pop()
        yield queue
        waiting += below.get(queue.name, [])[::-1]


def _waiting(view: View) -> Counter[Scope]:
    """Return the number of waiting jobs of each user, project and queue. A queue also counts the jobs of its
    sub-queues.
    """
    alike = Counter(
        (job.spec.user, job.spec.project, job.spec.queue) for job in view.jobs.values() if job.phase is Phase.PENDING
    )
    counts: Counter[Scope] = Counter()
    for (user, project, queue), count in alike.items():
        scopes = [Scope("user", user), Scope("project", project)]
        for scope in (*scopes, *(Scope("queue", name) for name in ancestry(view.queues, queue))):
            counts[scope] += count
    return counts
