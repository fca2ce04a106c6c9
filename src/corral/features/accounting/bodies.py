"""The queries for usage and reports."""

from dataclasses import dataclass

from corral.core.model.runs.run_history import ReportBy, UsageBy


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """The key to add up by, and the period (Unix seconds; by default the last week)."""

    by: UsageBy = UsageBy.USER
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """The keys to add up by, of user, project, queue, job, model, node, namespace, hour and weekday, and the period
    (Unix seconds; by default the last week).

    The namespace is that of pods that others made, and "(none)" for any other job.
    """

    by: tuple[ReportBy, ...] = (ReportBy.USER,)
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class WasteQuery:
    """The period (Unix seconds; by default the last week)."""

    since: int | None = None
    until: int | None = None
