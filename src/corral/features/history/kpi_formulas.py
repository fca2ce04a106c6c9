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
        **_of_devices(use, "the held parts of GPUs" if held else "the GPUs", held=held),
        **_of_jobs(jobs, length_s),
        "system_response_time": _response(response),
    }


def _of_devices(use: GroupUse, what: str, *, held: bool) -> dict[str, Kpi]:
    alone, alone_one = (" that were held alone", " that was held alone") if held else ("", "")
    return {
        "gpu_utilization": Kpi(
            _ratio(use.utilization_pct_s, use.utilization_s),
            "%",
            f"mean utilization of {what}, over the time with readings",
        ),
        "memory_utilization": Kpi(
            _ratio(use.memory_pct_s, use.memory_s),
            "%",
            f"mean part of the memory of {what} that was used, over the time with readings",
        ),
        "compute_efficiency": Kpi(
            _ratio(100 * use.used_s, use.granted_s),
            "%",
            "part of the GPU time granted to jobs with a utilization of 5 % or more, of the time with readings",
        ),
        "temperature": Kpi(
            _ratio(use.temperature_c_s, use.temperature_s),
            "C",
            f"mean temperature of the GPUs{alone}, over the time with readings",
        ),
        "power_consumption": Kpi(
            _ratio(use.power_w_s, use.power_s),
            "W",
            f"mean power draw of a GPU{alone_one}, over the time with readings",
        ),
        "hardware_failures": Kpi(
            use.failures if use.utilization_s or use.failures else None,
            "failures",
            "Xid errors that are not caused by applications, uncorrectable memory errors, and GPUs that became "
            "unreadable, as seen by the server",
        ),
    }


def _of_jobs(jobs: EndedJobSums, length_s: float) -> dict[str, Kpi]:
    return {
        "job_throughput": Kpi(
            _ratio(jobs.ended * HOUR_S, length_s),
            "jobs/h",
            "ended jobs per hour of the requested time, without cancelled jobs",
        ),
        "job_completion_time": Kpi(
            _ratio(jobs.finished_s, jobs.finished), "s", "mean time from submission to end of jobs that succeeded"
        ),
        "queue_wait_time": Kpi(
            _ratio(jobs.waited_s, jobs.started),
            "s",
            "mean wait of ended jobs in their queue before their last start, without the time on hold, for other "
            "jobs, for their begin time and between attempts",
        ),
        "resource_allocation_time": Kpi(
            _ratio(jobs.placed_s, jobs.placed),
            "s",
            "mean time of ended jobs from the decision on their GPUs to their start",
        ),
        "error_rates": Kpi(
            _ratio(100.0 * jobs.failed, jobs.ended),
            "%",
            "part of the ended jobs, without cancelled jobs, that failed, were lost or reached their time limit",
        ),
    }


def _response(response: ResponseTime | None) -> Kpi:
    if response is None:
        return Kpi(None, "ms", "only the whole server has this figure")
    return Kpi(
        _ratio(1000 * response.seconds, response.requests),
        "ms",
        "mean time to the head of an answer of the API since the server began, for any range, without requests "
        "that wait on purpose",
    )


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 3) if whole else None
