"""Binding a process, and all that it starts, to NUMA nodes: its CPUs by affinity, its memory by policy.

Loaded by the zygote, so it imports only what that has.
"""

import ctypes
import errno
import os

MPOL_PREFERRED = 1
MPOL_PREFERRED_MANY = 5
"""<linux/mempolicy.h>: these nodes first, others when they are full. The second is of Linux 5.15."""

_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "ppc64le": 261}
_MOST_NODES = 1024
"""The largest MAX_NUMNODES that a kernel is built with."""


def bind(nodes: list[int], cpus: list[int]) -> str | None:
    """Bind this process; why that was not possible, None if it was.

    Memory is preferred and not demanded from the nodes: a job that needs more than they have gets it from the others,
    where a strict policy (`numactl --membind`) would have the kernel kill it.
    """
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        return f"its CPUs cannot be used: {error.strerror}"
    number = _SET_MEMPOLICY.get(os.uname().machine)
    if number is None:
        return None  # the kernel allocates where a process runs, as long as nobody has set another policy
    error_number = _prefer(number, MPOL_PREFERRED_MANY, nodes)
    if error_number == errno.EINVAL and len(nodes) == 1:
        error_number = _prefer(number, MPOL_PREFERRED, nodes)
    return None if error_number == 0 else f"its memory cannot be preferred: {os.strerror(error_number)}"


def _prefer(number: int, mode: int, nodes: list[int]) -> int:
    """The error number of set_mempolicy(2), 0 for none."""
    libc = ctypes.CDLL(None, use_errno=True)
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (_MOST_NODES // bits))()
    for node in nodes:
        if node >= _MOST_NODES:
            return errno.EINVAL
        mask[node // bits] |= 1 << (node % bits)
    if libc.syscall(number, mode, mask, ctypes.c_ulong(_MOST_NODES + 1)) == 0:
        return 0
    return ctypes.get_errno()
