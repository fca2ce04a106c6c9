"""The kernel's log, in which only the kernel is believed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from corral.host.telemetry.kernel_log import JournalLog, KmsgLog, journal_message, kernel_message

LINE = "NVRM: Xid (PCI:0000:41:00): 79, pid=5"


def test_a_record_of_the_kernel_is_read_and_its_escaped_bytes_with_it() -> None:
    assert kernel_message(f"3,1,2,-;{LINE}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:41:00.0\n") == LINE
    assert kernel_message("6,1,2,-,caller=T1;a\\x0ab\n") == "a\nb"


@pytest.mark.parametrize(
    "record",
    [
        f"12,1,2,-;{LINE}\n",
        f"14,1,2,-;{LINE}\n",
        f"3,1,2,+;{LINE}\n",
        f"3,1;{LINE}\n",
        f";{LINE}\n",
        LINE,
        "",
    ],
)
def test_what_a_process_wrote_and_what_is_no_whole_record_is_not_believed(record: str) -> None:
    assert kernel_message(record) is None


def entry(**fields: object) -> bytes:
    return json.dumps({"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "MESSAGE": LINE, **fields}).encode()


def test_an_entry_of_the_journal_is_believed_if_the_kernel_wrote_it() -> None:
    assert journal_message(entry()) == LINE


@pytest.mark.parametrize(
    "bad",
    [
        entry(_TRANSPORT="syslog"),
        entry(SYSLOG_FACILITY="1"),
        entry(MESSAGE=[78, 86]),
        b'{"MESSAGE": "' + LINE.encode() + b'", "SYSLOG_FACILITY": "0"}',
        b"[]",
        b"{",
    ],
)
def test_any_other_entry_is_not(bad: bytes) -> None:
    assert journal_message(bad) is None


def test_the_journal_is_followed_and_an_end_of_its_program_is_borne(tmp_path: Path) -> None:
    program = tmp_path / "follower"
    program.write_text(f"#!/bin/sh\necho '{entry().decode()}'\nprintf '{{'\n")
    program.chmod(0o755)
    log = JournalLog(str(program))
    log._process.wait()
    assert log.lines() == (LINE,)
    assert log.lines() is None
    log.close()


@pytest.mark.skipif(not os.access("/dev/kmsg", os.W_OK), reason="/dev/kmsg cannot be written here")
def test_a_line_that_root_itself_writes_is_not_believed() -> None:
    try:
        log = KmsgLog(Path("/dev/kmsg"))
    except OSError as error:
        pytest.skip(f"/dev/kmsg cannot be read here: {error}")
    with open("/dev/kmsg", "wb", buffering=0) as kmsg:
        kmsg.write(f"<3>{LINE}".encode())
    lines = log.lines()
    assert lines is not None
    assert LINE not in lines
    log.close()


def test_where_processes_have_other_numbers_than_the_kernels_no_log_is_read() -> None:
    unshared = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    script = "from corral.host.telemetry.kernel_log import open_kernel_log; print(open_kernel_log())"
    if subprocess.run([*unshared, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine makes no namespaces")
    done = subprocess.run([*unshared, sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "None\n"
