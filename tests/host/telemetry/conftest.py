"""The stub driver for every test of this room."""

from tests.vendors.nvidia.nvml_stub import no_driver, nvml_library, nvml_stub, stubbed_nvml

__all__ = ["no_driver", "nvml_library", "nvml_stub", "stubbed_nvml"]
