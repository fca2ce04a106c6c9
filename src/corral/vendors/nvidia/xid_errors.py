"""NVIDIA's catalogue of Xid errors, as far as it decides about devices, and the driver's lines in the kernel's log."""

import re
from collections.abc import Mapping

from corral.core.model.devices.health import Verdict
from corral.vendors.vendor import ErrorMeaning, LoggedError

RECOVERY_CHANGED = 154
"""The Xid by which a driver announces another recovery action. The action itself is read from the device."""

XID_ERRORS: Mapping[int, ErrorMeaning] = {
    13: ErrorMeaning(Verdict.BLAMES_JOB, "graphics engine exception: an invalid instruction or access of a program"),
    31: ErrorMeaning(Verdict.BLAMES_JOB, "memory page fault: a program accessed an address that it does not have"),
    43: ErrorMeaning(Verdict.BLAMES_JOB, "the GPU stopped processing: a program's fault was found, its work ended"),
    45: ErrorMeaning(Verdict.BLAMES_JOB, "the driver removed the work of a program that was ended or had failed"),
    48: ErrorMeaning(Verdict.QUARANTINE, "uncorrectable memory error (double bit)", ends_job=True),
    63: ErrorMeaning(Verdict.SUSPECT, "a row of memory is to be replaced at the next reset"),
    64: ErrorMeaning(Verdict.QUARANTINE, "a row of memory could not be replaced"),
    68: ErrorMeaning(Verdict.BLAMES_JOB, "video processor exception"),
    74: ErrorMeaning(Verdict.SUSPECT, "NVLink error"),
    79: ErrorMeaning(Verdict.QUARANTINE, "the GPU has fallen off the bus", ends_job=True),
    92: ErrorMeaning(Verdict.SUSPECT, "many correctable memory errors"),
    94: ErrorMeaning(Verdict.SUSPECT, "contained uncorrectable memory error: the work that met it ends", ends_job=True),
    95: ErrorMeaning(Verdict.QUARANTINE, "uncontained uncorrectable memory error", ends_job=True),
    109: ErrorMeaning(Verdict.BLAMES_JOB, "context switch timeout: the work of a program did not yield"),
    119: ErrorMeaning(Verdict.QUARANTINE, "the GPU's system processor (GSP) does not answer", ends_job=True),
    120: ErrorMeaning(Verdict.QUARANTINE, "error of the GPU's system processor (GSP)", ends_job=True),
    RECOVERY_CHANGED: ErrorMeaning(Verdict.SUSPECT, "the recovery action of the GPU changed"),
}

UNKNOWN_XID = ErrorMeaning(Verdict.SUSPECT, "an error that is not in Corral's table of Xids")

CONTAINED, UNCONTAINED = frozenset({94}), frozenset({48, 95})
"""Errors after which uncorrectable memory errors are known to be contained, or not to be."""

_XID_LINE = re.compile(
    r"NVRM: Xid \(PCI:(?P<domain>[0-9a-fA-F]{4,8}):(?P<bus>[0-9a-fA-F]{2}):(?P<device>[0-9a-fA-F]{2})(?:\.[0-7])?\): "
    r"(?P<code>\d{1,5})(?!\d)(?:, pid='?(?P<pid>\d{1,10})\b)?"
)
"""The beginning of a line. What follows, such as the name of the process, may be chosen by a user and is not read."""


def logged_xid(line: str) -> LoggedError | None:
    """The Xid in a line of the driver; None if the line is none of these. The line must begin with the driver's name.

    A process number of 0 is the driver's own work.
    """
    found = _XID_LINE.match(line)
    if found is None:
        return None
    pid = int(found["pid"] or 0) or None
    return LoggedError(f"{found['domain']}:{found['bus']}:{found['device']}.0", int(found["code"]), pid)
