"""The cost of a fence on the start of a job: pairs of starts, one with a fence and one without, in turn. And how long
it takes to fence a process that runs already, as for a command in a reservation.

`python -m bench.fence` prints figures beside the goal, for each way of fencing that this machine has. It needs root.
"""

import statistics
import subprocess
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

from bench.launch import ENV
from corral.core.model.runs.launch import LaunchPhase
from corral.host.runtimes.process.cgroups.device_fence import DeviceFence, Numbers
from corral.host.runtimes.process.process_launches import ProcessLaunches
from corral.host.runtimes.process.procfs import LocalProcess
from corral.host.runtimes.process.records.launch_spec import LaunchSpec
from corral.host.sharing.fences import without
from corral.vendors.vendor import DeviceNumbers

PAIRS = 300
GOAL_MS = 2.0
FENCED = "GPU-3"
CLOSED: dict[str, tuple[Numbers, ...]] = {
    "8 GPUs": without([DeviceNumbers(195, 0, 253)], [DeviceNumbers(195, 3, 3)]),
    "8 GPUs with slices": without(
        [DeviceNumbers(195, 0, 253), DeviceNumbers(234, 3, 4351)],
        [DeviceNumbers(195, 3, 3), DeviceNumbers(234, 408, 409)],
    ),
}


def main() -> None:
    for what, closed in CLOSED.items():
        for by_program in (True, False):
            with tempfile.TemporaryDirectory(prefix="corral-bench-") as home:
                compare(what, closed, Path(home), by_program=by_program)


def compare(what: str, closed: tuple[Numbers, ...], home: Path, *, by_program: bool) -> None:
    """Print what one way of fencing costs."""

    def closed_to(uuids: Collection[str]) -> tuple[Numbers, ...]:
        return closed if FENCED in uuids else ()

    runtime = ProcessLaunches(
        home, log_max_bytes=1 << 20, kill_grace_s=0.0, on_event=lambda _: None, closed_to=closed_to
    )
    if not by_program:
        runtime._cgroups._fence = _Listing()
    runtime.start()
    way = "program" if by_program else "list"
    if (why := runtime.host_means.unfenced) is not None:
        print(f"{what}, by a {way}: {why}")
        return
    taken = [(_start_ms(runtime, f"w{n}", ()), _start_ms(runtime, f"f{n}", (FENCED,))) for n in range(PAIRS)]
    moved = statistics.median(_move_ms(runtime) for _ in range(PAIRS))
    runtime.close()
    plain, fenced = (statistics.median(column) for column in zip(*taken, strict=True))
    more = statistics.median(one - other for other, one in taken)
    print(
        f"{what}, by a {way}: a fence costs a start {more:.2f} ms (goal {GOAL_MS}), "
        f"median of {PAIRS} pairs; {plain:.2f} ms without, {fenced:.2f} ms with; of a process that runs, {moved:.2f} ms"
    )


class _Listing(DeviceFence):
    """As on a machine without the unified hierarchy."""

    def find(self, name: str, unified_base: str | None, root: str = "") -> None:
        super().find(name, None, root)


def _start_ms(runtime: ProcessLaunches, name: str, devices: tuple[str, ...]) -> float:
    log, scratch = str(runtime._home / "logs" / name), str(runtime._home / "scratch" / name)
    asked = time.time()
    runtime.launch(LaunchSpec(name, name, ("true",), ENV, "/", log, scratch, devices=devices))
    while (state := runtime.status(name)).phase is not LaunchPhase.EXITED:
        time.sleep(0.001)
    assert state.started_at is not None, state
    return 1e3 * (state.started_at - asked)


def _move_ms(runtime: ProcessLaunches) -> float:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        began = time.perf_counter()
        runtime.fence(LocalProcess.of(process.pid), (FENCED,))
        taken_ms = 1e3 * (time.perf_counter() - began)
        process.kill()
    return taken_ms


if __name__ == "__main__":
    main()
