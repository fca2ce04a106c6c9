"""Failures on the host: memory, disks, programs, modules, files, ports. Exit codes as in POSIX, XCU 2.8.2."""

import math
import re

from corral.core.diagnosis.failure import Diagnosis, Failure
from corral.core.diagnosis.rule import Case, Rule, always, rule
from corral.core.model.audience import Option
from corral.core.model.units import format_memory

NOT_FOUND = 127
CANNOT_RUN = 126
KILLED = 128 + 9

_PATH = r"'([^']{1,200})'"
_SIZE = r"(\d{1,9}(?:\.\d{1,3})?) (KiB|MiB|GiB|TiB)"
_MIB = {"KiB": 2**-10, "MiB": 1.0, "GiB": 2.0**10, "TiB": 2.0**20}
_KERNEL_KILLED = re.compile(r"the kernel killed .{1,40} for memory(?: \(OOMKilled\))?: the job may have (\d{1,12}) MiB")
_OUTPUT_FULL = re.compile(r"the disk of its output .{1,4400} is full")
_SMALLER = "or hold less at once (fewer loader workers, smaller batches)"


def of_ending(failure: Failure) -> Diagnosis | None:
    """Return the diagnosis from the runtime's reason; it is surer than any line of a log."""
    reason = failure.reason or ""
    if match := _KERNEL_KILLED.search(reason):
        limit = int(match[1])
        more = format_memory(_rounded(2 * limit))
        return Diagnosis(
            f"out of host memory: the kernel ended it at its {format_memory(limit)}",
            f"{failure.audience.option(Option.HOST_MEMORY, more)}, {_SMALLER}",
        )
    if failure.exit_code == NOT_FOUND and reason.startswith("command not found"):
        if failure.in_container:
            return Diagnosis(
                "its program is not in the image", "give its full path there, or take an image that has it"
            )
        return Diagnosis(
            "its program is in no directory of PATH",
            "give its full path, or activate its environment before you submit",
        )
    return None


def of_signal(failure: Failure) -> Diagnosis | None:
    """Return the likely cause of an end without any message."""
    if failure.reason is None and (failure.signal == 9 or failure.exit_code == KILLED):
        return Diagnosis(
            "something other than Corral killed it (SIGKILL), most often the kernel, because the host ran out of "
            "memory",
            f"ask for enough by {failure.audience.option(Option.HOST_MEMORY)}, {_SMALLER}; "
            "the kernel's log (`dmesg` on its node) shows it",
        )
    return None


def of_full_output(failure: Failure) -> Diagnosis | None:
    """Return the diagnosis of a program whose output found no room and that does not say why it failed."""
    match = _OUTPUT_FULL.search(failure.reason or "")
    if match is None:
        return None
    return Diagnosis(
        "its output no longer fits on that disk; its last lines may be missing",
        "make room there, or write elsewhere",
    )


def _rounded(mib: int) -> int:
    return math.ceil(mib / 1024) * 1024 if mib > 1024 else mib


def _host_memory(what: str, failure: Failure) -> Diagnosis:
    if failure.host_memory_mib:
        what += f"; it may have {format_memory(failure.host_memory_mib)}"
    return Diagnosis(what, f"ask for more by {failure.audience.option(Option.HOST_MEMORY)}, {_SMALLER}")


def _memory_error(_match: re.Match[str], case: Case) -> Diagnosis:
    return _host_memory("out of host memory", case.failure)


def _array(match: re.Match[str], case: Case) -> Diagnosis:
    size = format_memory(max(1, round(float(match[1]) * _MIB[match[2]])))
    return _host_memory(f"out of host memory: tried {size} for one array", case.failure)


def _cpu_allocator(match: re.Match[str], case: Case) -> Diagnosis:
    size = format_memory(max(1, int(match[1]) >> 20))
    return _host_memory(f"out of host memory: tried {size}", case.failure)


def _killed_worker(match: re.Match[str], case: Case) -> Diagnosis:
    if match[1] == "Bus error":
        larger = case.failure.audience.option(Option.SHM_SIZE) if case.failure.in_container else "a larger /dev/shm"
        return Diagnosis("a DataLoader worker found /dev/shm full", f"fewer workers (num_workers), or {larger}")
    return _host_memory("a DataLoader worker was killed, most often for the host's memory", case.failure)


def _full(match: re.Match[str], _case: Case) -> Diagnosis:
    where = next((group for group in match.groups() if group), None)
    place = "a disk" if where is None else f"the disk of {where}"
    look = "`df -h` shows which" if where is None else "remove what is not needed there, or write elsewhere"
    return Diagnosis(f"{place} is full", f"{look}; $TMPDIR moves temporary files")


def _quota(match: re.Match[str], _case: Case) -> Diagnosis:
    where = "" if match[1] is None else f" at {match[1]}"
    return Diagnosis(
        f"your disk quota{where} is used up", "`quota -s` shows your usage; remove files, or write elsewhere"
    )


def _module(match: re.Match[str], case: Case) -> Diagnosis:
    if case.failure.in_container:
        return Diagnosis(
            f"the image's Python has no module {match[1]}",
            "take an image that has it, or name another python of the image by its path in the command",
        )
    return Diagnosis(
        f"this Python has no module {match[1]}",
        "activate the environment that has it before you submit, or name its python by its path in the command",
    )


def _command(match: re.Match[str], case: Case) -> Diagnosis:
    if "/" in match[1]:
        return _missing_program(match, case)
    if case.failure.in_container:
        return Diagnosis(
            f"{match[1]}: no such command in the image", "give its full path, or take an image that has it"
        )
    return Diagnosis(
        f"{match[1]}: no such command",
        "give its full path, or load its environment in the script: the shell that ran it read no profile",
    )


def _not_executable(match: re.Match[str], _case: Case) -> Diagnosis:
    return Diagnosis(
        f"{match[1]} is not executable for the job's user", f"chmod +x {match[1]}, or run it by its interpreter"
    )


def _missing_program(match: re.Match[str], case: Case) -> Diagnosis:
    program = next(group for group in match.groups() if group)
    where = "" if program.startswith("/") or case.failure.workdir is None else f" in {case.failure.workdir}"
    return Diagnosis(f"there is no program {program}{where}", f"name it by its full path, or give {_elsewhere(case)}")


def _interpreter(match: re.Match[str], case: Case) -> Diagnosis:
    place = "the image" if case.failure.in_container else "this node"
    return Diagnosis(
        f"the first line of {match[1]} names an interpreter that is not there",
        f"name an interpreter of {place}; a file from Windows needs its line ends changed (dos2unix)",
    )


def _denied(match: re.Match[str], case: Case) -> Diagnosis:
    place = "in its container" if case.failure.in_container else "on the node"
    return Diagnosis(f"the job's user may not open {match[1]}", f"`ls -ld {match[1]}` {place} shows who may")


def _missing_file(match: re.Match[str], case: Case) -> Diagnosis | None:
    workdir = case.failure.workdir
    if match[1].startswith("/") or workdir is None:
        return None
    return Diagnosis(f"there is no {match[1]} in {workdir}, where it ran", f"{_elsewhere(case)}, or a path from / on")


def _missing_script(match: re.Match[str], case: Case) -> Diagnosis:
    where = "" if case.failure.workdir is None else f"; it ran in {case.failure.workdir}"
    return Diagnosis(f"there is no script {match[1]}{where}", f"{_elsewhere(case)}, or the script's path from / on")


def _elsewhere(case: Case) -> str:
    return case.failure.audience.option(Option.WORKDIR, "DIR")


_SHELL = r"[^:\s]{1,100}: (?:line \d{1,9}: |\d{1,9}: )?"
_WORD = r"([\w./+@-]{1,100})"

RULES: tuple[Rule, ...] = (
    rule(r"Unable to allocate " + _SIZE + r" for an array with shape ", _array),
    rule(
        r"\[enforce fail at alloc_cpu\.cpp:\d{1,5}\] .{0,60}DefaultCPUAllocator: .{0,20}can't allocate memory: "
        r"you tried to allocate (\d{1,15}) bytes",
        _cpu_allocator,
    ),
    rule(r"std::bad_alloc$", _memory_error),
    rule(r"$", _memory_error, exception="MemoryError"),
    rule(r"\[Errno 12\] Cannot allocate memory", _memory_error),
    rule(r"DataLoader worker \(pid(?:\(s\))? [\d, ]{1,60}\) is killed by signal: (Bus error|Killed)", _killed_worker),
    rule(rf"\[Errno 28\] No space left on device(?:: {_PATH})?", _full),
    rule(
        rf"{_SHELL}.{{0,100}}?(?:write error|error writing {_PATH}|cannot [a-z ]{{1,40}}{_PATH}): "
        r"No space left on device$",
        _full,
        bare=True,
    ),
    rule(rf"\[Errno 122\] Disk quota exceeded(?:: {_PATH})?", _quota),
    rule(r"No module named '?([\w.]{1,100})'?", _module),
    rule(r"[\w./+-]{0,100}python[\d.]{0,6}: No module named ([\w.]{1,100})$", _module, bare=True),
    rule(
        rf"[\w./+-]{{0,100}}python[\d.]{{0,6}}: can't open file {_PATH}: \[Errno 2\] ",
        _missing_script,
        bare=True,
        exit_codes=(2,),
    ),
    rule(rf"{_SHELL}(?:exec: )?{_WORD}: (?:command )?not found$", _command, bare=True, exit_codes=(NOT_FOUND,)),
    rule(rf"{_SHELL}{_WORD}: Permission denied$", _not_executable, bare=True, exit_codes=(CANNOT_RUN,)),
    rule(
        rf"{_SHELL}{_WORD}: No such file or directory$",
        _missing_program,
        bare=True,
        exit_codes=(NOT_FOUND,),
    ),
    rule(
        # dash; busybox; zsh
        rf"{_SHELL}(?:\.: )?(?:cannot open {_WORD}: No such file$|can't open '{_WORD}': No such file or directory$|"
        rf"can't open input file: {_WORD}$)",
        _missing_program,
        bare=True,
        exit_codes=(1, 2, NOT_FOUND),
    ),
    rule(
        rf"{_SHELL}{_WORD}: (?:[\w./+^-]{{1,100}}: bad interpreter: |cannot execute: required file not found$)",
        _interpreter,
        bare=True,
        exit_codes=(CANNOT_RUN, NOT_FOUND),
    ),
    rule(rf"\[Errno 13\] Permission denied: {_PATH}", _denied),
    rule(rf"\[Errno 2\] No such file or directory: {_PATH}", _missing_file),
    rule(
        r"(?:\[Errno 98\] Address already in use|The server socket has failed to listen on any local network address)",
        always("its port is taken by another program", "torchrun --standalone picks a free one; or set another port"),
    ),
)
