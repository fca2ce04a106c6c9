from tests.vendors.nvidia.nvml_stub import nvml_library, nvml_stub, stubbed_nvml

__all__ = ["nvml_library", "nvml_stub", "stubbed_nvml"]
