"""Exit codes in words. Code 128 + N means that signal N ended the process, or a process that it ran in a shell."""

import signal as signals

SIGNAL_BASE = 128

_MEANS = {
    "SIGHUP": "its terminal or session was closed",
    "SIGINT": "it was interrupted",
    "SIGQUIT": "it was told to quit",
    "SIGILL": "this CPU does not have one of its instructions",
    "SIGTRAP": "it hit a breakpoint or a failed check",
    "SIGABRT": "it aborted itself",
    "SIGBUS": "its mapped memory could not be read",
    "SIGFPE": "impossible arithmetic, such as an integer divided by zero",
    "SIGKILL": "it was killed",
    "SIGSEGV": "it read or wrote memory that is not its own",
    "SIGPIPE": "the reader of its output was gone",
    "SIGTERM": "it was told to end",
    "SIGXCPU": "it used up its limit of CPU time",
    "SIGXFSZ": "a file grew beyond its limit",
    "SIGSYS": "it made a system call that is forbidden",
}

_USUAL = frozenset({"SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGSEGV", "SIGPIPE", "SIGTERM", "SIGINT"})
"""The signals that an exit code 128 + N alone indicates. Other such codes are mostly a program's own (git: 129)."""


def signal_name(number: int) -> str:
    """The name of a signal as in kill(1), "SIGSEGV"; or "signal 40" if it has no name."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ending_signal(exit_code: int | None, signal: int | None) -> int | None:
    """The signal that ended a process, or probably a process that it waited for; None if there is none."""
    if signal is not None:
        return signal
    number = (exit_code or 0) - SIGNAL_BASE
    return number if number > 0 and signal_name(number) in _USUAL else None


def exit_code_in_words(exit_code: int, signal: int | None = None, *, brief: bool = False) -> str:
    """ "exit code 139 (SIGSEGV: it read or wrote memory that is not its own)". `brief` omits the meaning.

    If no signal is known to have ended the process itself, the words say so: "(as after SIGSEGV: ...)".
    """
    number = ending_signal(exit_code, signal)
    if number is None:
        return f"exit code {exit_code}"
    return f"exit code {exit_code} ({'' if signal is not None else 'as after '}{_told(number, brief=brief)})"


def _told(number: int, *, brief: bool) -> str:
    name = signal_name(number)
    means = None if brief else _MEANS.get(name)
    return name if means is None else f"{name}: {means}"
