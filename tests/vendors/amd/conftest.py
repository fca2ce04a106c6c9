"""A stand-in for AMD's driver library."""

from tests.vendors.amd.amdsmi_stub import amdsmi_library, amdsmi_stub

__all__ = ["amdsmi_library", "amdsmi_stub"]
