"""Calls NVML. Missing values are None; a lost device and an ended session raise errors of their own."""

from collections.abc import Callable
from typing import Any

import pynvml

from corral.core.model.errors import BackendFailed

_SESSION_ENDED = {
    pynvml.NVML_ERROR_UNINITIALIZED: "the NVML session has ended",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "libnvidia-ml.so.1, a part of the NVIDIA driver, is not installed",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the NVIDIA driver was upgraded while its old library was in use; "
    "load the new kernel module (or reboot), then restart whoever still uses the old library",
}
_DEVICE_LOST = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "the GPU is lost: it has fallen off the bus or stopped answering",
    pynvml.NVML_ERROR_RESET_REQUIRED: "the GPU needs a reset before it can be used again",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "the driver no longer finds the GPU",
}


class SessionEnded(BackendFailed):
    """The driver went away or was reloaded. A new session is needed for any device."""


class DeviceLost(BackendFailed):
    """This device does not answer any more. Other devices may still answer."""


def ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """The answer of one NVML call; None if this driver or device does not give it.

    Raises SessionEnded and DeviceLost. Every other error of NVML gives None.
    """
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        code = error.value
        if code in _SESSION_ENDED:
            raise SessionEnded(_SESSION_ENDED[code]) from error
        if code in _DEVICE_LOST:
            raise DeviceLost(_DEVICE_LOST[code]) from error
        return None


def open_session() -> None:
    """Start a session and end the previous one. Raises BackendFailed if the driver refuses."""
    close_session()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise SessionEnded(_SESSION_ENDED.get(error.value, f"NVML cannot be started: {error}")) from error


def close_session() -> None:
    """End the session, if there is one."""
    try:
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return
