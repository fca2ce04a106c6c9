"""The driver's lines in the kernel's log."""

import pytest

from corral.vendors.nvidia.xid_errors import logged_xid
from corral.vendors.vendor import LoggedError

A = "0000:41:00.0"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("NVRM: Xid (PCI:0000:41:00): 31, pid=1234, name=python3, Ch 00000010, intr 00000000.", (A, 31, 1234)),
        ("NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", (A, 79, None)),
        ("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.", (A, 79, None)),
        ("NVRM: Xid (PCI:0000:41:00): 43, pid='77', name=x", (A, 43, 77)),
        ("NVRM: Xid (PCI:0000:41:00): 13, pid=0, name=", (A, 13, None)),
        ("NVRM: Xid (PCI:0000:41:00): 31, pid=5, name=, pid=9, name=evil", (A, 31, 5)),
    ],
)
def test_an_error_is_read_with_its_device_and_its_process(line: str, expected: tuple[str, int, int | None]) -> None:
    assert logged_xid(line) == LoggedError(*expected)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "NVRM: GPU at PCI:0000:41:00: GPU-1",
        "x[5]: segfault at 0 NVRM: Xid (PCI:0000:41:00): 79, pid=1",
        "NVRM: Xid (PCI:[5]: segfault at 0 ip 0 sp 0 error 4 in a",
        " NVRM: Xid (PCI:0000:41:00): 79, pid=1",
        "NVRM: Xid (PCI:0000:41:00): 123456, pid=1",
    ],
)
def test_other_lines_are_none(line: str) -> None:
    assert logged_xid(line) is None
