"""The submission of a job that stands for pods of others, and its user."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from corral.core.model.jobs.submission import Submission
from corral.engines.kubernetes.binding.pod_ask import PodAsk

MOST_NAME = 200

Users = Mapping[str, str]
"""The user of a pod, by "NAMESPACE/ACCOUNT" or by "NAMESPACE"."""


def submission_of(members: Sequence[PodAsk]) -> Submission:
    """Return the submission of one job for these pods, which start together."""
    first = members[0]
    limits = [one.time_limit_s for one in members if one.time_limit_s is not None]
    called = first.name or (first.pod.name if first.gang is None else first.gang.name)
    return Submission(
        first.command,
        name=f"{first.pod.namespace}/{called}"[:MOST_NAME],
        request=replace(first.request, gang_size=len(members)),
        priority=first.priority,
        queue=first.queue or "default",
        project=first.project or "default",
        time_limit_s=max(limits) if len(limits) == len(members) else None,
        retries=0,
        force=first.force,
    )


def user_of(ask: PodAsk, users: Users) -> str:
    """Return the user of a pod: that of its account or its namespace, else the user with the namespace's name."""
    namespace = ask.pod.namespace
    return users.get(f"{namespace}/{ask.account}") or users.get(namespace) or namespace
