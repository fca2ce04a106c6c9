"""AMD: its driver by `amdsmi`, ROCm's variables and device files, compute partitions, `amd.com/*`.

Start with `AMD`, the value that holds everything that other packages may use.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from corral.clock import Clock
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.health import Verdict
from corral.core.model.jobs.job import Request
from corral.core.model.version import Version, dotted
from corral.core.ports.preflight import Effect, Finding, Place, Workload
from corral.core.ports.telemetry import Care
from corral.vendors.amd.node_labels import GPU, model_of, read_node_labels
from corral.vendors.amd.partitions import slice_id, slice_milli, slice_of
from corral.vendors.amd.smi_events import PAGE_FAULT, RESET
from corral.vendors.vendor import (
    DeviceFiles,
    DeviceNumbers,
    DriverLibrary,
    DriverSource,
    ErrorMeaning,
    HealthSigns,
    Host,
    HostSharing,
    Json,
    KubernetesNames,
    MockNames,
    PodShare,
    PowerControl,
    Preflight,
    Reached,
    Vendor,
)

_CONTROL_FILE = "/dev/kfd"
"""The file that every process opens to use a GPU through ROCm, besides the GPU's own file."""
_RENDER_FILE, _DRM_MAJOR = "/dev/dri/renderD", 226


def _open_amdsmi(clock: Clock, care: Care) -> DriverSource:
    from corral.vendors.amd.smi import open_amdsmi

    return open_amdsmi(clock, care)


def _means_it(request: Request, resources: Collection[str]) -> bool:
    return any(name.startswith(("rocm.", "amd.com/")) for name in resources)


def _visible(uuids: Sequence[str]) -> Mapping[str, str]:
    return {"ROCR_VISIBLE_DEVICES": ",".join(uuids)}


def _in_container(devices: Sequence[Reached], cdi_devices: Collection[str]) -> Json:
    """The device files for a container. Its user may open them if the host permits it, often by the group `render`."""
    files = dict.fromkeys((_CONTROL_FILE, *(file for device in devices for file in device.files)))
    return {
        "DeviceRequests": [],
        "Devices": [{"PathOnHost": file, "PathInContainer": file, "CgroupPermissions": "rw"} for file in files],
    }


def _number_of(file: str) -> DeviceNumbers | None:
    minor = file.removeprefix(_RENDER_FILE)
    return DeviceNumbers(_DRM_MAJOR, int(minor), int(minor)) if minor.isdecimal() else None


def _unfit(node: Node, device: Device) -> str | None:
    return f"AMD has no MPS, and {device.uuid} is AMD's; use --share timeslice"


def _share(host: Host) -> HostSharing:
    from corral.vendors.amd.amd_sharing import AmdSharing

    return AmdSharing()


def _power() -> PowerControl:
    from corral.vendors.amd.smi_power import AmdSmiPower

    return AmdSmiPower()


def _cuda_on_amd(work: Workload, place: Place) -> Iterator[Finding]:
    """Block a program that brings the CUDA runtime: it was built for NVIDIA's devices."""
    if work.runtime is None:
        return
    what = f"the program brings CUDA {dotted(work.runtime)} and {place.model} is AMD's"
    why = "CUDA finds no device there, and its libraries have no code for one"
    fix = "install a build for ROCm; or ask for NVIDIA's GPUs: --vendor nvidia"
    yield Finding(Effect.BLOCK, "cuda-on-amd", what, why, fix)


def _compute_of_model(name: str) -> Version | None:
    """Return None: only NVIDIA's devices have a compute capability."""
    return None


AMD = Vendor(
    name="amd",
    title="AMD",
    libraries=(DriverLibrary("amdsmi", _open_amdsmi, _power),),
    means_it=_means_it,
    variable="ROCR_VISIBLE_DEVICES",
    visible=_visible,
    # The devices that ROCR_VISIBLE_DEVICES leaves are counted from 0, and HIP also obeys these two variables.
    unset=("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    of_the_host=("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    void={},
    # Its GPUs have no numbers of their own: they are DRM devices, which those of other makers are, too.
    files=DeviceFiles(tuple, _number_of, (_CONTROL_FILE,), ("amdgpu", "amdgpu_xcp_drv"), _in_container),
    unfit=_unfit,
    share=_share,
    slice_milli=slice_milli,
    change_slices=None,
    preflight=Preflight(lambda strict: (_cuda_on_amd,), tuple),
    compute_of_model=_compute_of_model,
    kubernetes=KubernetesNames(
        gpu=GPU,
        domain="amd.com/",
        plugin="AMD's device plugin or GPU operator",
        of_slice=lambda profile: GPU,
        shared={},
        pod_share=lambda means, variables: PodShare(variables),
        variable=None,
        read_labels=read_node_labels,
        model=model_of,
    ),
    # The driver tells few errors, and by events: its counters show the others.
    signs=HealthSigns(
        error="event",
        errors={
            PAGE_FAULT: ErrorMeaning(
                Verdict.BLAMES_JOB, "memory page fault: a program accessed an address that it does not have"
            ),
            RESET: ErrorMeaning(Verdict.TOLD, "the driver resets the GPU, and the work on it is lost"),
        },
        unknown=ErrorMeaning(Verdict.SUSPECT, "an error that Corral does not know"),
        recovery=None,
        contained=frozenset(),
        uncontained=frozenset(),
        logged=lambda line: None,
        reset=lambda uuid: "amd-smi reset --gpureset --gpu INDEX",
    ),
    mock=MockNames("rocm", "amdgpu_driver", None, slice_of, slice_id),
)
