"""A stand-in for dcgm-exporter: real exposition text, whose values and pods a test sets."""

from dataclasses import dataclass, field

LINES = {
    "DCGM_FI_DEV_SM_CLOCK": "SM clock frequency (in MHz).",
    "DCGM_FI_DEV_GPU_TEMP": "GPU temperature (in C).",
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_FB_FREE": "Framebuffer memory free (in MiB).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "DCGM_FI_DEV_FB_RESERVED": "Framebuffer memory reserved (in MiB).",
}


@dataclass
class Exported:
    """One GPU: what it is like, and the pod that has it."""

    used_pct: float = 0.0
    power_w: float = 60.0
    used_mib: int = 0
    pod: tuple[str, str] | None = None


@dataclass
class Exporter:
    """The exporter of one node."""

    hostname: str
    gpus: list[Exported] = field(default_factory=lambda: [Exported() for _ in range(8)])

    def give(self, namespace: str, pod: str, *indices: int) -> None:
        """Let a pod have these GPUs."""
        for index in indices:
            self.gpus[index].pod = (namespace, pod)

    def answer(self, path: str) -> tuple[int, str]:
        """For `serving`."""
        return (200, self.text()) if path.endswith("/metrics") else (404, "")

    def text(self) -> str:
        lines = []
        for name, told in LINES.items():
            lines += [f"# HELP {name} {told}", f"# TYPE {name} gauge"]
            lines += [
                f"{name}{{{self._labels(index)}}} {self._value(name, gpu)}" for index, gpu in enumerate(self.gpus)
            ]
        return "\n".join(lines) + "\n"

    def _labels(self, index: int) -> str:
        namespace, pod = self.gpus[index].pod or ("", "")
        labels = {
            "gpu": str(index),
            "UUID": f"GPU-{self.hostname}-{index}",
            "pci_bus_id": f"00000000:{index:02X}:00.0",
            "device": f"nvidia{index}",
            "modelName": "NVIDIA H100 80GB HBM3",
            "Hostname": self.hostname,
            "DCGM_FI_DRIVER_VERSION": "550.54.15",
            "container": "server" if pod else "",
            "namespace": namespace,
            "pod": pod,
        }
        return ",".join(f'{name}="{value}"' for name, value in labels.items())

    def _value(self, name: str, gpu: Exported) -> float:
        return {
            "DCGM_FI_DEV_SM_CLOCK": 1980,
            "DCGM_FI_DEV_GPU_TEMP": 50,
            "DCGM_FI_DEV_POWER_USAGE": gpu.power_w,
            "DCGM_FI_DEV_GPU_UTIL": gpu.used_pct,
            "DCGM_FI_DEV_FB_FREE": 81000 - gpu.used_mib,
            "DCGM_FI_DEV_FB_USED": gpu.used_mib,
            "DCGM_FI_DEV_FB_RESERVED": 559,
        }[name]
