"""The arithmetic of key figures: from sums to a value with its unit and its description. Pure."""

from typing import NamedTuple

from corral.core.model.devices.group_use import EndedJobSums, GroupUse
from corral.features.history.answers import Kpi

HOUR_S = 3600.0


class ResponseTime(NamedTuple):
    """The number of answered requests since the server began, and their total time."""

    requests: int = 0
    seconds: float = 0.0


def key_figures(
    use: GroupUse, jobs: EndedJobSums, response: ResponseTime | None, length_s: float, *, held: bool
) -> dict[str, Kpi]:
    """Return the twelve figures by name, over `length_s` seconds.

    `held` means that the readings cover only held parts of devices, not whole devices. `response` is None for groups,
    which have none. Figures without measurements are None.
    """
    return {
        **_of_devices(use, "what was held of GPUs" if held else "the GPUs", held=held),
        **_of_jobs(jobs, length_s),
        "system_response_time": _response(response),
    }


def _of_devices(use: GroupUse, what: str, *, held: bool) -> dict[str, Kpi]:
    alone, alone_one = (" that were held alone", " that was held alone") if held else ("", "")
    return {
        "gpu_utilization": Kpi(
            _ratio(use.utilization_pct_s, use.utilization_s),
            "%",
            f"mean utilization of {what}, over the time in which it was read",
        ),
        "memory_utilization": Kpi(
            _ratio(use.memory_pct_s, use.memory_s),
            "%",
            f"mean part of the memory of {what} that was used, over the time in which it was read",
        ),
        "compute_efficiency": Kpi(
            _ratio(100 * use.used_s, use.granted_s),
            "%",
            "part of the GPU time granted to jobs in which utilization was 5 % or more, of that in which it was read",
        ),
        "temperature": Kpi(
            _ratio(use.temperature_c_s, use.temperature_s),
            "C",
            f"mean temperature of the GPUs{alone}, over the time in which it was read",
        ),
        "power_consumption": Kpi(
            _ratio(use.power_w_s, use.power_s),
            "W",
            f"mean power draw of a GPU{alone_one}, over the time in which it was read",
        ),
        "hardware_failures": Kpi(
            use.failures if use.utilization_s or use.failures else None,
            "failures",
            "Xid errors that are no application's fault, memory errors beyond correction and GPUs that could not be "
            "read any more, as the server saw them happen",
        ),
    }


def _of_jobs(jobs: EndedJobSums, length_s: float) -> dict[str, Kpi]:
    return {
        "job_throughput": Kpi(
            _ratio(jobs.ended * HOUR_S, length_s),
            "jobs/h",
            "jobs that ended per hour of the time asked for, without cancelled ones",
        ),
        "job_completion_time": Kpi(
            _ratio(jobs.finished_s, jobs.finished), "s", "mean time from submission to end of jobs that succeeded"
        ),
        "queue_wait_time": Kpi(
            _ratio(jobs.waited_s, jobs.started),
            "s",
            "mean time that jobs that ended had waited in their queue before their last start, without those on hold, "
            "for other jobs, for their begin time and between attempts",
        ),
        "resource_allocation_time": Kpi(
            _ratio(jobs.placed_s, jobs.placed),
            "s",
            "mean time from the decision on their GPUs to their start, of jobs that ended",
        ),
        "error_rates": Kpi(
            _ratio(100.0 * jobs.failed, jobs.ended),
            "%",
            "part of the jobs that ended that failed, were lost or reached their time limit, without cancelled ones",
        ),
    }


def _response(response: ResponseTime | None) -> Kpi:
    if response is None:
        return Kpi(None, "ms", "is of the server, and not of a part of its work")
    return Kpi(
        _ratio(1000 * response.seconds, response.requests),
        "ms",
        "mean time to the head of an answer of the API since the server began, whatever the range, without requests "
        "that wait on purpose",
    )


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 3) if whole else None
