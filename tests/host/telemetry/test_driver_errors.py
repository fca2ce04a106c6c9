"""Errors of a driver: an event and a line of the kernel's log are one error, with the job of its process."""

from dataclasses import dataclass, field

from corral.core.model.devices.device import Device, DeviceProcess, DeviceSample
from corral.core.model.devices.vitals import DriverError
from corral.host.telemetry.driver_errors import LINE_CHARACTERS, LINES_KEPT, PROCESSES_KEPT_S, TOGETHER_S, DriverErrors
from corral.host.telemetry.signs.device_signs import ERRORS_KEPT_S, MOST_ERRORS

GPUS = (
    Device("a", 0, "GPU", 8, pci_bus_id="00000000:41:00.0"),
    Device("b", 1, "GPU", 8, pci_bus_id="00000000:42:00.0"),
)
LINE = "NVRM: Xid (PCI:0000:41:00): {}, pid={}, name=python3"


@dataclass
class Log:
    new: list[str] = field(default_factory=list)

    def lines(self) -> tuple[str, ...]:
        lines, self.new = tuple(self.new), []
        return lines

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Rig:
    """Two devices that are sampled each second."""

    log: Log | None = field(default_factory=Log)
    running: dict[int, str] = field(default_factory=dict)
    now: float = 100.0

    def __post_init__(self) -> None:
        self.errors = DriverErrors(lambda: self.log, self.running.get)

    def sample(self, *codes: int, pid: int | None = None, after_s: float = 1.0) -> tuple[DriverError, ...]:
        """The errors that a sample of device a tells after these events; on the device runs `pid`, of job 5."""
        self.now += after_s
        processes = () if pid is None else (DeviceProcess(pid, job_id="5"),)
        events = tuple(DriverError(code, self.now) for code in codes)
        samples = [
            DeviceSample("a", self.now, processes=processes, xid=codes[-1] if codes else 0, errors=events),
            DeviceSample("b", self.now, processes=(), xid=0),
        ]
        a, b = self.errors.complete(samples, GPUS)
        assert b.errors == ()
        self.last = a
        return a.errors


def test_an_event_waits_for_its_line_and_takes_its_process() -> None:
    rig = Rig()
    assert rig.sample(31, pid=7) == ()
    assert rig.last.xid == 0
    assert rig.log is not None
    rig.log.new.append(LINE.format(31, 7))
    (error,) = rig.sample()
    assert (error.code, error.pid, error.job_id) == (31, 7, "5")
    assert rig.last.xid == 31


def test_a_line_that_comes_first_takes_the_event_that_follows() -> None:
    rig = Rig()
    assert rig.log is not None
    rig.log.new.append(LINE.format(31, 7))
    assert len(rig.sample()) == 1
    assert len(rig.sample(31)) == 1
    assert len(rig.sample(31)) == 1
    assert len(rig.sample(after_s=TOGETHER_S)) == 2


def test_an_event_without_a_line_is_told_without_a_process() -> None:
    rig = Rig()
    rig.sample(79)
    (error,) = rig.sample(after_s=TOGETHER_S)
    assert (error.code, error.pid) == (79, None)


def test_where_no_log_can_be_read_an_event_waits_for_nothing() -> None:
    assert [error.code for error in Rig(log=None).sample(79)] == [79]


def test_a_process_that_has_ended_is_still_known_and_a_running_one_that_was_never_seen_too() -> None:
    rig = Rig(running={8: "6"})
    rig.sample(pid=7)
    assert rig.log is not None
    rig.log.new += [LINE.format(31, 7), LINE.format(31, 8), LINE.format(31, 9)]
    assert [error.job_id for error in rig.sample()] == ["5", "6", None]
    rig.log.new.append(LINE.format(43, 7))
    assert rig.sample(after_s=PROCESSES_KEPT_S)[-1].job_id is None


def test_errors_are_told_for_a_while_and_only_the_newest() -> None:
    rig = Rig(log=None)
    rig.sample(*range(1, 100))
    assert len(rig.last.errors) == MOST_ERRORS
    assert rig.sample(after_s=ERRORS_KEPT_S) == ()
    assert rig.last.xid == 99


def test_many_errors_of_one_kind_hide_no_other() -> None:
    rig = Rig(log=None)
    rig.sample(79, *[45] * 100)
    assert {error.code for error in rig.last.errors} == {79, 45}
    assert len(rig.last.errors) == MOST_ERRORS


def test_lines_about_other_addresses_and_other_lines_are_no_errors() -> None:
    rig = Rig()
    assert rig.log is not None
    rig.log.new += ["NVRM: Xid (PCI:0001:41:00): 79, pid=1", "NVRM: Xid (PCI:0000:43:00): 79, pid=1", "oops"]
    assert rig.sample() == ()


def test_the_last_lines_of_a_device_are_kept_as_evidence_each_cut() -> None:
    rig = Rig()
    assert rig.log is not None
    for number in range(LINES_KEPT + 5):
        rig.log.new.append(LINE.format(13, number) + "x" * 10 * LINE_CHARACTERS)
        rig.sample()
    lines = rig.errors.logged("a")
    assert lines is not None
    assert len(lines) == LINES_KEPT
    assert lines[0].startswith(LINE.format(13, 5))
    assert {len(line) for line in lines} == {LINE_CHARACTERS}
    assert rig.errors.logged("b") == ()
    assert Rig(log=None).errors.logged("a") is None
