"""Answers with key figures."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kpi:
    """One key figure: `value` is None where nothing was measured. `formula` is a sentence with its definition."""

    value: float | None
    unit: str
    formula: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KpiSet:
    """The key figures of a pool, or of one group of it."""

    gpu_utilization: Kpi
    memory_utilization: Kpi
    compute_efficiency: Kpi
    job_throughput: Kpi
    job_completion_time: Kpi
    queue_wait_time: Kpi
    resource_allocation_time: Kpi
    system_response_time: Kpi
    temperature: Kpi
    power_consumption: Kpi
    error_rates: Kpi
    hardware_failures: Kpi


@dataclass(frozen=True, slots=True, kw_only=True)
class KpiRow(KpiSet):
    """The key figures of one user, project, queue, node or means of sharing."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kpis(KpiSet):
    """The key figures of the whole pool from `from` to `to` (Unix seconds). With `by`, also a row for each group.

    The groups with the most GPU time come first. `left_out` is the number of further rows.
    """

    from_: int
    to: int
    by: str | None = None
    rows: tuple[KpiRow, ...] = ()
    left_out: int = 0
