"""Which GPUs are available for a task now. These functions only look; `corral.gpu.lease` takes GPUs."""

import logging
import time

from corral.client.submitting.arguments import number, optional, whole
from corral.core.model.errors import Refused
from corral.core.model.units import count_of
from corral.gpu.monitor import GPUMonitor, get_gpu_monitor, why_not
from corral.gpu.reading import by_score, site_settings

logger = logging.getLogger(__name__)

MAX_UTILIZATION = 50
_ANY_UTILIZATION = 100


def check_gpu_availability(required_gpus: int, min_memory_mb: int | None = None) -> tuple[bool, str]:
    """Return whether this many GPUs are available now (at most 50 % busy, this much memory free each), and why.

    It takes no GPU: another caller may take them next. If no GPU can be seen the answer is False, unless the site's
    settings say `assume_available`.
    """
    required_gpus, min_memory_mb = _checked(required_gpus, min_memory_mb)
    able, total, others = _look(get_gpu_monitor(), min_memory_mb, MAX_UTILIZATION)
    if total == 0:
        return _blind(required_gpus)
    wish = f"{required_gpus} needed" + (f", each with {min_memory_mb} MB free" if min_memory_mb else "")
    found = f"{len(able)} of {count_of(total, 'GPU')} available ({wish})"
    if len(able) >= required_gpus:
        return True, f"{found}: {', '.join(map(str, able))}"
    if required_gpus > total:
        return False, f"{found}; this machine has {total}, the most you can ask for"
    return False, f"{found}; {others}"


def wait_for_gpu_availability(
    required_gpus: int, min_memory_mb: int | None = None, timeout_seconds: int = 300, check_interval: int = 30
) -> tuple[bool, str]:
    """Check every `check_interval` seconds until this many GPUs are available or the time is up; the last answer.

    It takes nothing. More GPUs than the machine has are not waited for.
    """
    required_gpus, min_memory_mb = _checked(required_gpus, min_memory_mb)
    deadline = time.monotonic() + number(timeout_seconds, "timeout_seconds", "300", infinite=True)
    check_interval_s = number(check_interval, "check_interval", "30")
    while True:
        available, message = check_gpu_availability(required_gpus, min_memory_mb)
        left_s = deadline - time.monotonic()
        if available or left_s <= 0 or _is_hopeless(required_gpus):
            return available, message
        logger.info("waiting for GPUs, %.0f s left: %s", left_s, message)
        time.sleep(min(max(check_interval_s, 0.01), left_s))


def select_gpus_for_task(required_gpus: int, min_memory_mb: int = 8000) -> list[int]:
    """Return the indices of the best GPUs for a task, the best first; of equal ones the lower index first.

    It takes no GPU: two callers may get the same GPUs. `corral.gpu.lease` takes them, for one caller alone. Any
    utilisation is accepted, it only lowers the score. Raises RuntimeError if there are not enough.
    """
    required_gpus, memory_mb = _checked(required_gpus, min_memory_mb)
    able, total, others = _look(get_gpu_monitor(), memory_mb, _ANY_UTILIZATION)
    if total == 0:
        assumed, message = _blind(required_gpus)
        if not assumed:
            raise RuntimeError(message)
        return list(range(required_gpus))
    if len(able) < required_gpus:
        wish = f"{count_of(required_gpus, 'GPU')} with {min_memory_mb} MB free"
        raise RuntimeError(f"{wish} needed, {len(able)} of {total} available; {others}")
    return able[:required_gpus]


def _look(monitor: GPUMonitor, min_memory_mb: int | None, max_utilization: int) -> tuple[list[int], int, str]:
    """Return (indices of available GPUs, number of all GPUs, why the others are not available), from a new snapshot."""
    snapshot = monitor.query_gpus(use_cache=False)
    able, others = [], []
    for gpu in by_score([] if snapshot is None else snapshot.gpus):
        reason = why_not(gpu, min_memory_mb, max_utilization)
        if reason is None:
            able.append(gpu.index)
        else:
            others.append((gpu.index, reason))
    return able, len(able) + len(others), "; ".join(f"GPU {index}: {reason}" for index, reason in sorted(others))


def _is_hopeless(required_gpus: int) -> bool:
    snapshot = get_gpu_monitor().query_gpus()
    return snapshot is not None and required_gpus > len(snapshot.gpus)


def _blind(required_gpus: int) -> tuple[bool, str]:
    """The answer if no GPU can be read: no, unless the site has set `assume_available`."""
    if site_settings().assume_available:
        return True, f"no GPU can be seen here; {count_of(required_gpus, 'GPU')} assumed available, as the site decided"
    return False, "no GPU can be seen on this machine (no driver, or it does not answer), so none is available"


def _checked(required_gpus: int, min_memory_mb: int | None) -> tuple[int, int | None]:
    """Both as plain numbers. Raises Refused."""
    count = whole(required_gpus, "required_gpus")
    if count < 0:
        raise Refused(
            f"required_gpus: {count} is not a number of GPUs; write one such as 1, or 0", field="required_gpus"
        )
    return count, optional(whole, min_memory_mb, "min_memory_mb", "8000")
