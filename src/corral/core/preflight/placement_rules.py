"""Rules on the number of devices and on how they are shared."""

from collections.abc import Iterator

from corral.core.model.units import count_of
from corral.core.ports.preflight import Effect, Finding, Place, Workload

_PADDLE_ALLOCATOR = "naive_best_fit"

MAX_RANKS = 4096
"""The largest tensor parallel size that is suggested."""


def device_count(work: Workload, place: Place) -> Iterator[Finding]:
    """Check that a program which starts a rank per device has all these devices, and leaves none idle."""
    if work.world_size is None or work.world_size == place.devices:
        return
    what = f"the program uses {count_of(work.world_size, 'GPU')} and {place.devices} would be granted"
    if work.world_size > place.devices:
        why = "its ranks find no device of their own and fail, or double up on one"
        yield Finding(Effect.BLOCK, "device-count", what, why, f"--gpus {work.world_size}")
    elif place.devices:
        why = f"{count_of(place.devices - work.world_size, 'GPU')} would be allocated and stay idle"
        yield Finding(Effect.WARN, "device-count", what, why, f"--gpus {work.world_size}")


def head_division(work: Workload, place: Place) -> Iterator[Finding]:
    """Check that the tensor parallel size divides the number of attention heads: otherwise servers refuse to start."""
    ranks, heads = work.tensor_parallel, work.heads
    if ranks is None or not heads or heads % ranks == 0:
        return
    fits = next(one for one in range(min(ranks, heads, MAX_RANKS), 0, -1) if heads % one == 0)
    what = f"the model has {heads} attention heads and they are to be split over {ranks} GPUs"
    why = "each GPU takes as many as the others, so the server ends at once where that does not come out even"
    yield Finding(Effect.BLOCK, "head-division", what, why, f"tensor parallel size {fits} and --gpus {fits}")


def paddle_allocator(work: Workload, place: Place) -> Iterator[Finding]:
    """Warn of Paddle's growing allocator, which does not work well on a virtual or shared device."""
    if work.framework != "paddle" or not place.shared or work.allocator == _PADDLE_ALLOCATOR:
        return
    strategy = work.allocator or "auto_growth, its default"
    what = f"PaddlePaddle allocates by {strategy} on a shared device"
    why = "its growing pools clash with a limit on memory: out of memory early, and random crashes"
    yield Finding(Effect.WARN, "paddle-allocator", what, why, f"--env FLAGS_allocator_strategy={_PADDLE_ALLOCATOR}")
