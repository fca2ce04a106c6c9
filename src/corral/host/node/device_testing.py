"""Tests of devices on this host: a command for each, with a deadline, whose exit status is the verdict.

The command is the site's or Corral's own, and runs as this process's user. Whatever it does, its output is bounded and
it ends at its deadline with all that it has started, which is known by a mark in its environment. So a test that a
server has left behind ends before the next one begins. A process that the kernel cannot end, because it waits for the
driver, keeps nobody waiting: the device has failed.
"""

import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.errors import NotFound
from corral.core.model.printable import printable
from corral.core.model.units import format_duration
from corral.core.ports.node import DeviceTest, DeviceTestReport
from corral.host.runtimes.process.procfs import carries_mark, marked
from corral.pidfd import send_if
from corral.vendors.registry import vendor_of

log = logging.getLogger(__name__)

OUTPUT_BYTES = 4096
"""The number of bytes that are kept of the end of a command's output."""

_MARK = "CORRAL_TEST"
"""The variable by which the processes of a test are found."""

_READ_BYTES = 65_536
_LOOK_S = 0.1
_KILLED_S = 2.0
_LAST_LINE = 300
"""The most characters of a command's last line in the reason of a failure."""

Sample = Callable[[Sequence[str], float], Sequence[DeviceSample]]
"""Samples devices now, within this time."""


class DeviceTesting:
    """Runs the tests of one host, each on a thread of its own. Keeps the last report of each device. Thread-safe.

    `described` says that the devices come from a mock file: their own test is one more sample.
    """

    def __init__(self, inventory: Callable[[], Node | None], sample: Sample, *, tag: str, described: bool) -> None:
        """`tag` distinguishes the tests of this home from those of others."""
        self._inventory = inventory
        self._sample = sample
        self._tag = tag
        self._described = described
        self._lock = threading.Lock()
        self._running: dict[str, threading.Thread] = {}
        self._reports: dict[str, tuple[str, DeviceTestReport]] = {}
        self._closing = threading.Event()

    def take(self, test: DeviceTest) -> DeviceTestReport | None:
        """Begin or report a test, as `corral.core.ports.node.HostAccess.test_device` does."""
        node = self._inventory()
        device = next((one for one in (() if node is None else node.devices) if one.uuid == test.uuid), None)
        if device is None:
            raise NotFound(f"there is no device {test.uuid} on this node any more", field="device")
        with self._lock:
            known = self._reports.get(test.uuid)
            if known is not None and known[0] == test.id:
                return known[1]
            if test.uuid not in self._running:
                name = f"device-test-{device.index}"
                thread = threading.Thread(target=self._run, args=(test, device), name=name, daemon=True)
                self._running[test.uuid] = thread
                thread.start()
        return None

    def close(self) -> None:
        """End the tests that run. What the kernel cannot end is left after a while."""
        self._closing.set()
        with self._lock:
            running = list(self._running.values())
        deadline = time.monotonic() + 3 * _KILLED_S
        for thread in running:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, test: DeviceTest, device: Device) -> None:
        try:
            report = self._report(test, device)
        except OSError as error:
            report = DeviceTestReport(f"its test cannot be run: {error}")
        log.info("GPU %s: the %s ended: %s", device.uuid, _noun(test), report.failure or "it passed")
        with self._lock:
            del self._running[test.uuid]
            self._reports[test.uuid] = test.id, report

    def _report(self, test: DeviceTest, device: Device) -> DeviceTestReport:
        vendor = vendor_of(device)
        if test.command is None and self._described:
            return self._sampled(test)
        if test.resets:
            argv = vendor.signs.reset(device.uuid).split()
        elif test.command is not None:
            argv = ["/bin/sh", "-c", test.command]
        elif vendor.signs.own_test is not None:
            argv = [sys.executable, "-m", vendor.signs.own_test]
        else:
            return DeviceTestReport(output=f"there is no test of Corral's own for {vendor.title} GPUs")
        mark = {_MARK: f"{self._tag}/{device.uuid}"}
        env = {**os.environ, **vendor.visible((device.uuid,)), **_described_in(device), **mark}
        return self._ran(test, argv, env)

    def _sampled(self, test: DeviceTest) -> DeviceTestReport:
        """The stand-in for a mock device: it passes if it can be read and has no memory errors."""
        (sample,) = self._sample((test.uuid,), test.timeout_s)
        errors = f"{sample.ecc_errors} memory errors" if sample.ecc_errors else None
        return DeviceTestReport(None if test.resets else sample.fault or errors)

    def _ran(self, test: DeviceTest, argv: Sequence[str], env: Mapping[str, str]) -> DeviceTestReport:
        mark = f"{_MARK}={env[_MARK]}".encode()
        _end_all(mark)
        deadline = time.monotonic() + test.timeout_s
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            cwd="/",
            start_new_session=True,
        )
        assert process.stdout is not None
        output, pipe = b"", process.stdout.fileno()
        os.set_blocking(pipe, False)
        try:
            while process.poll() is None and time.monotonic() < deadline and not self._closing.is_set():
                select.select([pipe], [], [], _LOOK_S)
                output = _read_more(pipe, output)
            code = process.returncode
            # What it has left in its group goes as well, and what has left its group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            _end_all(mark)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_KILLED_S)
            output = _read_more(pipe, output)
        finally:
            process.stdout.close()
        return _report_of(test, code, output.decode(errors="replace"))


def _end_all(mark: bytes) -> None:
    """End the processes with this mark, and those that they start meanwhile.

    One that the kernel cannot end is left after a while. Users' processes are never looked at.
    """
    deadline = time.monotonic() + _KILLED_S
    while (pids := marked(mark, os.getuid())) and time.monotonic() < deadline:
        for pid in pids:
            send_if(pid, signal.SIGKILL, partial(carries_mark, pid, mark))


def _read_more(pipe: int, output: bytes) -> bytes:
    """Return the end of the output with what is in the pipe, a bounded part of it at a time."""
    with suppress(BlockingIOError):
        output += os.read(pipe, _READ_BYTES)
    return output[-OUTPUT_BYTES:]


def _report_of(test: DeviceTest, code: int | None, output: str) -> DeviceTestReport:
    shown = printable_lines(output)
    if code == 0:
        return DeviceTestReport(None, shown)
    if code is None:
        return DeviceTestReport(f"the {_noun(test)} had not ended after {format_duration(test.timeout_s)}", shown)
    how = f"exited with {code}" if code > 0 else f"was ended by signal {-code}"
    last = next((line.strip() for line in reversed(shown.splitlines()) if line.strip()), "it wrote nothing")
    return DeviceTestReport(f"the {_noun(test)} {how}: {last:.{_LAST_LINE}}", shown)


def printable_lines(text: str) -> str:
    """The text with all that is not printable escaped, but for its line ends."""
    return "\n".join(printable(line) for line in text.splitlines())


def _noun(test: DeviceTest) -> str:
    return "reset" if test.resets else "test"


def _described_in(device: Device) -> dict[str, str]:
    """The variables by which a site's command knows the device."""
    whole = device.parent_uuid or device.uuid
    return {"CORRAL_TEST_GPU": device.uuid, "CORRAL_TEST_GPU_OF": whole, "CORRAL_TEST_GPU_INDEX": str(device.index)}
