"""The checks of `corral doctor` on a machine with a GPU: device files, modes, and tools for sharing."""

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.units import count_of
from corral.core.model.version import dotted, version_tuple
from corral.formatting.check_result import OK, WARNING, CheckResult

LEAST_TOOLKIT = (1, 7, 0)
"""The first version of the container toolkit that gives containers single GPUs by UUID."""

BFLOAT16_COMPUTE = (8, 0)

TOOL_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Surroundings:
    """The places that the checks examine: those of the host, unless a test sets others."""

    node: Node
    sharing: Sequence[tuple[str, Means]] = ()
    home: Path = Path("/")
    mps_control: str = "nvidia-cuda-mps-control"
    mps_multi_user: bool = False
    dev: Path = Path("/dev")
    toolkit: Path = Path("/usr/local/cuda")
    docker_config: Path = Path("/etc/docker/daemon.json")
    mps_pipes: Path = Path("/tmp/nvidia-mps")
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    which: Callable[[str], str | None] = shutil.which


Check = Callable[[Surroundings], CheckResult]


def check_device_files(here: Surroundings) -> CheckResult:
    """Check that this user can open the device files. Otherwise CUDA fails with "permission denied" or 999."""
    files = sorted(here.dev.glob("nvidia[0-9]*")) + [here.dev / name for name in ("nvidiactl", "nvidia-uvm")]
    missing = [file.name for file in files if not file.exists()]
    if missing:
        found = f"{', '.join(missing)} missing in {here.dev}; without them CUDA fails with CUDA_ERROR_UNKNOWN (999)"
        return CheckResult("files", WARNING, found, "create them: sudo nvidia-modprobe -c 0 -u")
    closed = [file for file in files if not os.access(file, os.R_OK | os.W_OK)]
    if closed:
        mode = stat.filemode(closed[0].stat().st_mode)
        found = f"{', '.join(file.name for file in closed)} cannot be opened by you (mode {mode})"
        return CheckResult("files", WARNING, found, "allow access: sudo chmod a+rw /dev/nvidia*, or join their group")
    return CheckResult("files", OK, f"{count_of(len(files), 'device file')} can be opened")


def check_persistence(here: Surroundings) -> CheckResult:
    """Check that the driver stays loaded between jobs."""
    off = [device for device in here.node.devices if device.persistence is False]
    if off:
        found = f"persistence mode is off on GPU {_indices(off)}: a job's first CUDA call waits for the driver to load"
        return CheckResult("driver", WARNING, found, "sudo nvidia-smi -pm 1")
    return CheckResult("driver", OK, "persistence mode is on, or the driver does not say")


def check_runtime(here: Surroundings) -> CheckResult:
    """Check that the driver supports the machine's CUDA toolkit."""
    from corral.core.ports.preflight import Place, Workload
    from corral.core.preflight.cuda_runtime import runtime_of_machine
    from corral.vendors.nvidia.preflight.preflight_rules import driver_against_runtime

    runtime = runtime_of_machine(here.env, here.toolkit)
    if runtime is None:
        return CheckResult("runtime", OK, "no CUDA toolkit is installed; programs bring their own")
    place = Place(driver=here.node.driver_version, cuda=here.node.cuda_version)
    for finding in driver_against_runtime(Workload(runtime=runtime.version), place, strict=False):
        return CheckResult("runtime", WARNING, f"{runtime.source}: {finding.what}; {finding.why}", finding.fix)
    return CheckResult("runtime", OK, f"CUDA {dotted(runtime.version)} in {runtime.source} works with the driver")


def check_precision(here: Surroundings) -> CheckResult:
    """Check that every GPU supports the precision that models use by default."""
    old = [device for device in here.node.devices if (device.compute_capability or BFLOAT16_COMPUTE) < BFLOAT16_COMPUTE]
    if old:
        found = (
            f"GPU {_indices(old)} ({old[0].model}) does not support bfloat16, which vLLM and many models use by default"
        )
        return CheckResult("bfloat16", WARNING, found, "use --dtype=half there, or submit with --min-compute 8.0")
    return CheckResult("bfloat16", OK, "supported by every GPU")


def check_paddle(here: Surroundings) -> CheckResult:
    """Check that PaddlePaddle uses an allocator that works on shared GPUs."""
    from corral.core.preflight.cuda_runtime import python_environment

    python = python_environment(["python3"], here.env, Path("/"))
    if python is None or not python.has("paddle") or here.env.get("FLAGS_allocator_strategy") == "naive_best_fit":
        return CheckResult("paddle", OK, "not in your Python, or set up for sharing")
    found = f"{python.root} has PaddlePaddle, whose default allocator can fail on shared GPUs even if memory is free"
    return CheckResult("paddle", WARNING, found, "export FLAGS_allocator_strategy=naive_best_fit")


def check_mps(here: Surroundings) -> CheckResult:
    """Check that the devices that the site shares by MPS support it, and that no foreign MPS daemon is in the way."""
    from corral.core.sharing.arrange import Arrangement
    from corral.vendors.nvidia.mps import Mps
    from corral.vendors.nvidia.mps_daemon import multi_user_missing, program_missing

    if (here.mps_pipes / "nvidia-cuda-mps-control.pid").exists():
        found = f"an MPS daemon that Corral did not start uses {here.mps_pipes} and takes the clients of every GPU"
        return CheckResult("MPS", WARNING, found, "stop it: echo quit | sudo nvidia-cuda-mps-control")
    if not any(means is Means.MPS for _, means in here.sharing):
        return CheckResult("MPS", OK, "not used; `sharing: mps` in config.yaml turns it on")
    if (missing := program_missing(here.mps_control)) is not None:
        advice = "install the driver's compute utilities, or name the program: mps_control in config.yaml"
        return CheckResult("MPS", WARNING, f"{missing}; until then these GPUs are not shared", advice)
    refusals = Arrangement(tuple(here.sharing), unfit=Mps(here.home, control=here.mps_control).unfit).refusals(
        here.node
    )
    if refusals:
        return CheckResult("MPS", WARNING, "; ".join(refusals), "remove these GPUs from `sharing: mps`")
    if here.mps_multi_user and (missing := multi_user_missing(here.mps_control)) is not None:
        found = f"mps_multi_user is set and {missing}; so only one user at a time can share a GPU"
        return CheckResult("MPS", WARNING, found, "upgrade the driver, or remove mps_multi_user")
    return CheckResult("MPS", OK, "every GPU that is set to MPS supports it")


def check_process_mode(*, asked: bool, described: bool, by_root: bool) -> CheckResult:
    """Check that devices can be limited to one process if the site wants it, which is impossible for mock devices."""
    from corral.vendors.nvidia.compute_mode import process_mode_missing

    if not asked:
        return CheckResult("mode", OK, "exclusive_process_mode is not set")
    if (missing := process_mode_missing(described=described, by_root=by_root)) is None:
        return CheckResult("mode", OK, "a GPU that is allocated whole is limited to one process")
    advice = "run the server as root with nvidia-smi on its PATH, or remove exclusive_process_mode from config.yaml"
    return CheckResult("mode", WARNING, f"{missing}; so exclusive_process_mode has no effect", advice)


def check_mig(here: Surroundings) -> CheckResult:
    """Check that no device is in MIG mode without slices. Nothing could run on it."""
    sliced = [device for device in here.node.devices if device.mig_enabled]
    bare = [device for device in sliced if not device.partitions]
    if bare:
        advice = f"create some: sudo nvidia-smi mig -i {bare[0].index} -cgi PROFILE -C (profiles: nvidia-smi mig -lgip)"
        return CheckResult("MIG", WARNING, f"GPU {_indices(bare)} is in MIG mode and has no slices", advice)
    slices = sum(len(device.partitions) for device in sliced)
    return CheckResult("MIG", OK, f"{count_of(slices, 'slice')} on GPU {_indices(sliced)}" if sliced else "not in use")


def check_containers(here: Surroundings) -> CheckResult:
    """Check that Docker, if it is installed, gives GPUs to containers."""
    if here.which("docker") is None:
        return CheckResult("docker", OK, "not installed")
    tool = here.which("nvidia-ctk")
    if tool is None:
        advice = "install nvidia-container-toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker"
        return CheckResult(
            "docker", WARNING, "the NVIDIA container toolkit is missing: containers cannot use GPUs", advice
        )
    version = _version_of(tool)
    if version is not None and version < LEAST_TOOLKIT:
        found = f"NVIDIA container toolkit {'.'.join(map(str, version))} is older than 1.7.0"
        return CheckResult("docker", WARNING, found, "upgrade nvidia-container-toolkit")
    if not here.docker_config.exists() or "nvidia" not in here.docker_config.read_text(errors="replace"):
        advice = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
        return CheckResult("docker", WARNING, f"{here.docker_config} does not list the nvidia runtime", advice)
    return CheckResult("docker", OK, "containers can use GPUs (NVIDIA container toolkit)")


GPU_CHECKS: tuple[Check, ...] = (
    check_device_files,
    check_persistence,
    check_runtime,
    check_precision,
    check_paddle,
    check_mps,
    check_mig,
    check_containers,
)


def _indices(devices: Sequence[Device]) -> str:
    return ", ".join(str(device.index) for device in devices)


def _version_of(tool: str) -> tuple[int, ...] | None:
    """The version that the tool prints; None if it prints none."""
    try:
        done = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=TOOL_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = (word.strip(",") for word in done.stdout.split())
    return next((version for word in words if (version := version_tuple(word)) is not None), None)
