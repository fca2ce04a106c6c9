"""A server by itself, sampling 8 described GPUs: how soon it answers, what it takes when nothing happens.

`python -m bench.server` prints each figure beside its goal. `throw_away` is how other benchmarks get a server.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

IDLE_S = 10.0
DEVICES = 8


@dataclass(frozen=True)
class RunningServer:
    home: Path
    pid: int
    ready_s: float

    @property
    def socket(self) -> Path:
        return self.home / "corral.sock"

    def cpu_s(self) -> float:
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def private_mib(self) -> float:
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return sum(int(kib) for kib in re.findall(r"^Private_\w+: +(\d+) kB", rollup, re.MULTILINE)) / 1024


def main() -> None:
    with throw_away() as server:
        print(f"server ready after {server.ready_s:.2f} s (goal 1.2 s; prototype 0.8 s)")
        time.sleep(2.0)
        before_s = server.cpu_s()
        time.sleep(IDLE_S)
        busy_pct = 100 * (server.cpu_s() - before_s) / IDLE_S
        print(f"idle, {DEVICES} devices sampled each second: {busy_pct:.2f} % of a core (goal below 1 %), "
              f"{server.private_mib():.0f} MiB private (goal 100 MiB; prototype 63 MiB)")  # fmt: skip


@contextmanager
def throw_away(
    devices: int = DEVICES, prepare: Callable[[Path], None] = lambda _: None, program: str = "corral.daemon"
) -> Iterator[RunningServer]:
    """A server in a home of its own, `prepare`d first, that is stopped and removed in the end."""
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        home = Path(name)
        mock = home / "mock-accelerator.toml"
        mock.write_text(described_devices(devices))
        prepare(home)
        read_fd, write_fd = os.pipe()
        command = [sys.executable, "-m", program, "--home", name, "--mock", str(mock)]
        with (home / "server.log").open("wb") as log, os.fdopen(read_fd) as ready:
            began = time.perf_counter()
            process = subprocess.Popen([*command, "--ready-fd", str(write_fd)], pass_fds=[write_fd], stderr=log)
            os.close(write_fd)
            said = ready.readline().strip()
            ready_s = time.perf_counter() - began
        try:
            if said != "ready":
                raise SystemExit(f"the server did not start: {said}")
            yield RunningServer(home, process.pid, ready_s)
        finally:
            process.terminate()
            process.wait(30)


def described_devices(count: int) -> str:
    devices = ",\n".join(
        f'  {{ mother_uuid = "c59395cd-ac91-4cd3-a1b0-3d2568aa2d{number:02}", model_name = "NVIDIA A100-SXM4-80GB", '
        'numa_node = 0, subproc_count = 108, memory_size = "80G", is_mig_device = false }'
        for number in range(count)
    )
    return (
        'slot_name = "cuda"\ndevice_plugin_name = "CUDADevice"\n'
        f"devices = [\n{devices},\n]\n"
        '[attributes]\nnvidia_driver = "550.54.15"\ncuda_runtime = "12.4"\n'
        '[formats.shares]\nhuman_readable_name = "fGPU"\n'
    )


if __name__ == "__main__":
    main()
