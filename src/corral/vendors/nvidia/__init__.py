"""NVIDIA: its driver by NVML or `nvidia-smi`, MPS and MIG, CUDA's variables and compatibility, `nvidia.com/*`.

Start with `NVIDIA`, the value that holds everything that other packages may use.
"""

from collections.abc import Collection, Sequence

from corral.clock import Clock
from corral.core.model.answers.devices import SlicePlan
from corral.core.model.devices.device import Device, Node
from corral.core.model.jobs.job import Request
from corral.core.model.version import Version
from corral.core.ports.node import SliceChange
from corral.core.ports.telemetry import Care
from corral.vendors.nvidia.cluster_shares import SHARES
from corral.vendors.nvidia.device_files import FILES
from corral.vendors.nvidia.gpu_labels import GPU, PLUGIN_SETS, SLICES, model_of, read_gpu_labels, runtime_of
from corral.vendors.nvidia.mig_profiles import slice_id, slice_milli, slice_of
from corral.vendors.nvidia.preflight.image_names import IMAGE
from corral.vendors.nvidia.visible_devices import SHARED, pod_share, visible
from corral.vendors.nvidia.xid_errors import (
    CONTAINED,
    RECOVERY_CHANGED,
    UNCONTAINED,
    UNKNOWN_XID,
    XID_ERRORS,
    logged_xid,
)
from corral.vendors.vendor import (
    DriverLibrary,
    DriverSource,
    HealthSigns,
    Host,
    HostSharing,
    KubernetesNames,
    MockNames,
    PowerControl,
    Preflight,
    Rule,
    Vendor,
)


def _open_nvml(clock: Clock, care: Care) -> DriverSource:
    from corral.vendors.nvidia.nvml import open_nvml

    return open_nvml(clock, care)


def _open_nvidia_smi(clock: Clock, care: Care) -> DriverSource:
    from corral.vendors.nvidia.nvidia_smi import open_nvidia_smi

    return open_nvidia_smi(clock, care)


def _means_it(request: Request, resources: Collection[str]) -> bool:
    return request.min_cuda is not None or any(name.startswith(("cuda.", "nvidia.com/")) for name in resources)


def _unfit(node: Node, device: Device) -> str | None:
    from corral.vendors.nvidia.mps import mps_unfit

    return mps_unfit(node, device)


def _share(host: Host) -> HostSharing:
    from corral.vendors.nvidia.nvidia_sharing import NvidiaSharing

    return NvidiaSharing(host)


def _power() -> PowerControl:
    from corral.vendors.nvidia.nvml_power import NvmlPower

    return NvmlPower()


def _change_slices(device: Device, change: SliceChange, allowed: bool) -> SlicePlan:
    from corral.vendors.nvidia.mig_changes import change_slices

    return change_slices(device, change, allowed)


def _driver_rules(strict: bool) -> Sequence[Rule]:
    from corral.vendors.nvidia.preflight.preflight_rules import driver_rules

    return driver_rules(strict=strict)


def _sharing_rules() -> Sequence[Rule]:
    from corral.vendors.nvidia.preflight.preflight_rules import mig_rules, mps_rules

    return mps_rules, mig_rules


def _compute_of_model(name: str) -> Version | None:
    from corral.vendors.nvidia.compatibility import compute_of_model

    return compute_of_model(name)


NVIDIA = Vendor(
    name="nvidia",
    title="NVIDIA",
    libraries=(DriverLibrary("NVML", _open_nvml, _power), DriverLibrary("nvidia-smi", _open_nvidia_smi)),
    means_it=_means_it,
    variable="CUDA_VISIBLE_DEVICES",
    visible=visible,
    unset=(),
    of_the_host=("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    # Without this, an image with NVIDIA_VISIBLE_DEVICES=all would see every GPU if NVIDIA's runtime is the default one.
    void={"NVIDIA_VISIBLE_DEVICES": "void"},
    files=FILES,
    unfit=_unfit,
    share=_share,
    slice_milli=slice_milli,
    change_slices=_change_slices,
    preflight=Preflight(_driver_rules, _sharing_rules, IMAGE),
    compute_of_model=_compute_of_model,
    kubernetes=KubernetesNames(
        gpu=GPU,
        domain="nvidia.com/",
        plugin="NVIDIA's device plugin or GPU operator",
        # A name of Kubernetes has no "+", as in 1g.5gb+me.
        of_slice=lambda profile: f"nvidia.com/mig-{profile.replace('+', '.')}",
        shared=SHARED,
        pod_share=pod_share,
        variable="NVIDIA_VISIBLE_DEVICES",
        read_labels=read_gpu_labels,
        model=model_of,
        shares=SHARES,
        slices=SLICES,
        plugin_sets=PLUGIN_SETS,
        runtime=runtime_of,
    ),
    signs=HealthSigns(
        error="Xid",
        errors=XID_ERRORS,
        unknown=UNKNOWN_XID,
        recovery=RECOVERY_CHANGED,
        contained=CONTAINED,
        uncontained=UNCONTAINED,
        logged=logged_xid,
        reset=lambda uuid: f"nvidia-smi --gpu-reset -i {uuid}",
        own_test="corral.vendors.nvidia.device_test",
    ),
    mock=MockNames("cuda", "nvidia_driver", "cuda_runtime", slice_of, slice_id),
)
