"""Which GPUs are available for a task now. These functions only look; `corral.gpu.lease` takes GPUs."""

import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

from corral.client.submitting.arguments import number, optional, whole
from corral.core.model.errors import Refused
from corral.core.model.units import count_of
from corral.gpu.monitor import get_gpu_monitor, why_not
from corral.gpu.reading import GPUInfo, by_score, site_settings

logger = logging.getLogger(__name__)

MAX_UTILIZATION = 50
_ANY_UTILIZATION = 100


def check_gpu_availability(required_gpus: int, min_memory_mb: int | None = None) -> tuple[bool, str]:
    """Return whether this many GPUs are available now (at most 50 % busy, this much memory free each), and why.

    It takes no GPU: another caller may take them next. If no GPU can be seen the answer is False, unless the site's
    settings say `assume_available`.
    """
    required_gpus, min_memory_mb = _checked(required_gpus, min_memory_mb)
    return _checked_once(required_gpus, min_memory_mb)[:2]


def wait_for_gpu_availability(
    required_gpus: int, min_memory_mb: int | None = None, timeout_seconds: int = 300, check_interval: int = 30
) -> tuple[bool, str]:
    """Check every `check_interval` seconds until this many GPUs are available or the time is up; the last answer.

    It takes nothing. More GPUs than the machine has, or than have this memory in total, are not waited for.
    """
    required_gpus, min_memory_mb = _checked(required_gpus, min_memory_mb)
    deadline = time.monotonic() + number(timeout_seconds, "timeout_seconds", "300", infinite=True)
    check_interval_s = number(check_interval, "check_interval", "30")
    while True:
        available, message, hopeless = _checked_once(required_gpus, min_memory_mb)
        left_s = deadline - time.monotonic()
        if available or left_s <= 0 or hopeless:
            return available, message
        logger.info("waiting for GPUs, %.0f s left: %s", left_s, message)
        time.sleep(min(max(check_interval_s, 0.01), left_s))


def select_gpus_for_task(required_gpus: int, min_memory_mb: int = 8000) -> list[int]:
    """Return the indices of the best GPUs for a task, the best first; of equal ones the lower index first.

    It takes no GPU: two callers may get the same GPUs. `corral.gpu.lease` takes them, for one caller alone. Any
    utilisation is accepted, it only lowers the score. Raises RuntimeError if there are not enough.
    """
    required_gpus, memory_mb = _checked(required_gpus, min_memory_mb)
    seen = _look(required_gpus, memory_mb, _ANY_UTILIZATION)
    if seen.total == 0:
        assumed, message = _blind(required_gpus)
        if not assumed:
            raise RuntimeError(message)
        return list(range(required_gpus))
    if len(seen.able) < required_gpus:
        wish = count_of(required_gpus, "GPU") + (f" with {memory_mb} MB free" if memory_mb is not None else "")
        raise RuntimeError(f"{wish} needed, {len(seen.able)} of {seen.total} available; {seen.never or seen.others}")
    return seen.able[:required_gpus]


class _Seen(NamedTuple):
    """The indices of the available GPUs, the best first, and the number of all GPUs.

    `others` says of each other GPU why it is not available, and `never` why there cannot be as many as are required.
    """

    able: list[int]
    total: int
    others: str
    never: str | None


def _checked_once(required_gpus: int, min_memory_mb: int | None) -> tuple[bool, str, bool]:
    """The answer of `check_gpu_availability`, and whether it stays the same however long one waits."""
    seen = _look(required_gpus, min_memory_mb, MAX_UTILIZATION)
    if seen.total == 0:
        return *_blind(required_gpus), False
    wish = f"{required_gpus} needed" + (f", each with {min_memory_mb} MB free" if min_memory_mb else "")
    found = f"{len(seen.able)} of {count_of(seen.total, 'GPU')} available ({wish})"
    if len(seen.able) >= required_gpus:
        return True, f"{found}: {', '.join(map(str, seen.able))}", False
    return False, f"{found}; {seen.never or seen.others}", seen.never is not None


def _look(required_gpus: int, min_memory_mb: int | None, max_utilization: int) -> _Seen:
    """Look at a new snapshot."""
    snapshot = get_gpu_monitor().query_gpus(use_cache=False)
    gpus = by_score([] if snapshot is None else snapshot.gpus)
    reasons = {gpu.index: why_not(gpu, min_memory_mb, max_utilization) for gpu in gpus}
    others = "; ".join(f"GPU {index}: {reason}" for index, reason in sorted(reasons.items()) if reason is not None)
    able = [index for index, reason in reasons.items() if reason is None]
    return _Seen(able, len(gpus), others, _never(gpus, required_gpus, min_memory_mb))


def _never(gpus: Sequence[GPUInfo], required_gpus: int, min_memory_mb: int | None) -> str | None:
    """Why these GPUs are too few, whatever else happens on them; None if they may become available."""
    if required_gpus > len(gpus):
        return f"this machine has {len(gpus)}, the most you can ask for"
    large = [gpu for gpu in gpus if gpu.memory_total_mb is None or gpu.memory_total_mb >= (min_memory_mb or 0)]
    if required_gpus <= len(large):
        return None
    most_mb = max(gpu.memory_total_mb or 0 for gpu in gpus)
    fits = f"{len(large)} of {count_of(len(gpus), 'GPU')} can ever have {min_memory_mb} MB free"
    return f"{fits}; the largest has {most_mb} MB in total"


def _blind(required_gpus: int) -> tuple[bool, str]:
    """The answer if no GPU can be read: no, unless the site has set `assume_available`."""
    if site_settings().assume_available:
        return True, f"no GPU can be seen here; {count_of(required_gpus, 'GPU')} assumed available, as the site decided"
    return False, "no GPU can be seen on this machine (no driver, or it does not answer), so none is available"


def _checked(required_gpus: int, min_memory_mb: int | None) -> tuple[int, int | None]:
    """Both as plain numbers. Raises Refused."""
    count = whole(required_gpus, "required_gpus")
    if count < 1:
        raise Refused(
            f"required_gpus: {count} GPUs cannot be looked for; 1 or more can, and a task without GPUs need not look",
            field="required_gpus",
        )
    return count, optional(whole, min_memory_mb, "min_memory_mb", "8000")
