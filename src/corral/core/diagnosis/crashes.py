"""The remedy if a signal of the kernel ended a program, and its log does not say why."""

from corral.core.diagnosis.failure import Diagnosis
from corral.core.diagnosis.rule import Case
from corral.core.model.runs.exit_code import ending_signal, signal_name

_PYTHON_TRACE = "Fatal Python error: "

_MOSTLY = {
    "SIGSEGV": (
        "mostly a compiled library that does not match the others, or a bug in it",
        "install builds of the same release",
    ),
    "SIGABRT": (
        "a library found something wrong and ended the program; its log's last lines may say what",
        "without any, look for memory that is freed twice",
    ),
    "SIGILL": (
        "the program or a library was built for another CPU than this node's",
        "install a build for this CPU (`lscpu` shows its instructions), or pick another node",
    ),
    "SIGBUS": (
        "mostly /dev/shm or the disk of a mapped file was full, or the file was cut while in use",
        "`df -h` shows which; fewer loader workers need less of /dev/shm",
    ),
    "SIGFPE": ("mostly an integer divided by zero in compiled code", "look for a size or a count of 0"),
}


def of_crash(case: Case) -> Diagnosis | None:
    """Return the usual cause of the signal that ended the job, which the exit code names.

    None for other signals, and if the runtime knows the reason.
    """
    number = ending_signal(case.failure.exit_code, case.failure.signal)
    if number is None or case.failure.reason is not None:
        return None
    name = signal_name(number)
    if name not in _MOSTLY:
        return None
    what, fix = _MOSTLY[name]
    where = "its log shows where, below Fatal Python error"
    if not any(line.text.startswith(_PYTHON_TRACE) for line in case.lines):
        where = f"of Python, {case.failure.audience.env('PYTHONFAULTHANDLER=1')} shows where"
    return Diagnosis(what, f"{fix}; {where}")
