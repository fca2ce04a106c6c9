"""Telemetry by itself, on eight GPUs of the stub driver: a sample, and the sampler's share of a core.

`python -m bench.telemetry` prints each figure beside its anchor. The stub answers at once, so these are Corral's own
costs; a real driver adds about 0.09 ms a call.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from corral.clock import SystemClock
from corral.config import Settings
from corral.core.model.devices.device import DeviceSample, Node
from corral.core.model.view import View
from corral.core.ports.node import News
from corral.host.telemetry.node_contact import WatchedNode
from corral.host.telemetry.reading.patient_reader import by_processes
from corral.host.telemetry.sampler import Sampler
from corral.vendors.nvidia.nvml import open_nvml
from tests.vendors.nvidia.nvml_stub import build_stub

SAMPLES = 2_000
SAMPLER_S = 10.0
PROCESSES_A_GPU = 2


def main() -> None:
    if "NVML_STUB_CONTROL" in os.environ:
        one_sample()
        the_sampler()
        return
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        control = Path(name) / "control"
        pid = os.getpid()
        control.write_text("".join(f"gpu {i} process {pid} 100\n" * PROCESSES_A_GPU for i in range(8)))
        env = {"LD_LIBRARY_PATH": str(build_stub(Path(name))), "NVML_STUB_CONTROL": str(control)}
        subprocess.run([sys.executable, "-m", "bench.telemetry"], env=os.environ | env, check=True)


def one_sample() -> None:
    source = open_nvml(SystemClock())
    times_ms = []
    for _ in range(SAMPLES):
        began = time.perf_counter()
        source.sample()
        times_ms.append((time.perf_counter() - began) * 1e3)
    times_ms.sort()
    print(f"one sample of 8 GPUs: p50 {statistics.median(times_ms):.2f} ms, p99 {times_ms[SAMPLES * 99 // 100]:.2f} ms "
          "(goal 0.5 ms; prototype 0.11 ms; a nvidia-smi process: 7 to 20 ms)")  # fmt: skip


def the_sampler() -> None:
    observed: list[object] = []
    before_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    node = WatchedNode("here", SystemClock(), Settings(), view=View, observe=observed.extend)

    def listener(found: Node | None, samples: Sequence[DeviceSample]) -> None:
        visit = node.hear(News(1, "only", time.time(), node=found, samples=tuple(samples)))
        if visit is not None:
            node.readmit(visit)

    sampler = Sampler(by_processes(SystemClock()), SystemClock(), Settings(), listener=listener)
    sampler.start()
    observed.clear()
    began_s, before_s = time.perf_counter(), time.process_time()
    time.sleep(SAMPLER_S)
    busy_pct = 100 * (time.process_time() - before_s) / (time.perf_counter() - began_s)
    sampler.close()
    grown_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mib
    print(f"sampling 8 GPUs with {8 * PROCESSES_A_GPU} processes each second: {busy_pct:.2f} % of a core, "
          f"{grown_mib:.1f} MiB more, {len(observed)} observations of an idle machine "
          "(goal below 1 %; gpustat, which opens NVML anew: 80 %)")  # fmt: skip


if __name__ == "__main__":
    main()
