"""What watching the health of 64 GPUs of the stub driver costs, as a share of one core.

`python -m bench.health_watch` prints each figure beside its anchor. The stub answers at once: a real driver adds its
own time, in which this host's cores may do other work. Samples are taken each second.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from corral.clock import SystemClock
from corral.config import Settings
from corral.core.model.devices.device import DeviceSample, Node
from corral.core.model.view import View
from corral.core.ports.node import News
from corral.host.telemetry.driver_errors import DriverErrors
from corral.host.telemetry.node_contact import WatchedNode
from corral.host.telemetry.reading.patient_reader import PatientReader
from corral.host.telemetry.reading.process_worker import ProcessWorker
from corral.host.telemetry.sampler import Sampler
from corral.host.telemetry.signs.device_signs import signs_of
from corral.host.telemetry.signs.reading import NOTHING_BEFORE
from corral.vendors.nvidia.nvml import NvmlSource
from corral.vendors.nvidia.nvml_vitals import VITALS_AGE_S
from tests.vendors.nvidia.nvml_stub import build_stub

GPUS = 64
ROUNDS = 200
SAMPLER_S = 20.0


def main() -> None:
    if "NVML_STUB_CONTROL" in os.environ:
        the_watching()
        the_whole()
        return
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        control = Path(name) / "control"
        control.write_text(f"devices {GPUS}\n")
        env = {"LD_LIBRARY_PATH": str(build_stub(Path(name))), "NVML_STUB_CONTROL": str(control)}
        subprocess.run([sys.executable, "-m", "bench.health_watch"], env=os.environ | env, check=True)


def the_watching() -> None:
    """What it adds to the samples that are taken anyhow: more readings, errors, and the rules."""
    source, clock = NvmlSource(SystemClock()), SystemClock()
    devices, samples = source.found().devices, source.sample()
    handles = source._current_session().handles
    reader = source._vitals
    vitals_ms = _ms(lambda: [reader.read(handle, uuid, clock.now(), anew=True) for uuid, handle in handles.items()])
    errors = DriverErrors()
    errors_ms = _ms(lambda: errors.complete(samples, devices))
    memories = {device.uuid: NOTHING_BEFORE for device in devices}

    def judge() -> None:
        for device, sample in zip(devices, samples, strict=True):
            _, memories[device.uuid] = signs_of(device, sample, memories[device.uuid], max_temperature_c=95)

    rules_ms = _ms(judge)
    total_ms = vitals_ms / VITALS_AGE_S + errors_ms + rules_ms
    print(f"watching {GPUS} GPUs: {total_ms / 10:.2f} % of a core (goal 0.5 %): vitals {vitals_ms:.1f} ms each "
          f"{VITALS_AGE_S:.0f} s, errors {errors_ms:.2f} ms, rules {rules_ms:.2f} ms a second")  # fmt: skip


def _ms(work: Callable[[], object]) -> float:
    work()
    began = time.process_time()
    for _ in range(ROUNDS):
        work()
    return (time.process_time() - began) * 1e3 / ROUNDS


def the_whole() -> None:
    """All that reading the GPUs takes, here and in the process that asks the driver."""
    node = WatchedNode("here", SystemClock(), Settings(), view=View, observe=lambda _: None)
    clock, hired = SystemClock(), list[ProcessWorker]()

    def hire() -> ProcessWorker:
        hired.append(ProcessWorker(clock.boot_at, {}))
        return hired[-1]

    def listener(found: Node | None, samples: Sequence[DeviceSample]) -> None:
        visit = node.hear(News(1, "only", time.time(), node=found, samples=tuple(samples)))
        if visit is not None:
            node.readmit(visit)

    sampler = Sampler(PatientReader(hire, clock), clock, Settings(), listener=listener)
    sampler.start()
    pid = hired[0]._process.pid
    before_s, before_there_s, began_s = time.process_time(), _cpu_s(pid), time.perf_counter()
    time.sleep(SAMPLER_S)
    passed_s = time.perf_counter() - began_s
    here_pct, there_pct = (
        100 * spent / passed_s for spent in (time.process_time() - before_s, _cpu_s(pid) - before_there_s)
    )
    memory_mib = _resident_mib(pid)
    sampler.close()
    print(f"reading {GPUS} GPUs each second, all told: {here_pct:.2f} % of a core here, {there_pct:.2f} % in the "
          f"reader's process, which has {memory_mib:.0f} MiB")  # fmt: skip


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
