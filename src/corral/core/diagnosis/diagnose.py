"""Finds one diagnosis for a failure from the end of its log, or none: no diagnosis is better than a wrong one."""

from corral.core.diagnosis import crashes, cuda, gpu_memory, host, nccl, vllm
from corral.core.diagnosis.failure import Diagnosis, Failure
from corral.core.diagnosis.log_end import LogLine, lines_of
from corral.core.diagnosis.rule import Case, Rule

RULES: tuple[Rule, ...] = (*gpu_memory.RULES, *vllm.RULES, *cuda.RULES, *nccl.RULES, *host.RULES)

_WRAPPERS = frozenset(
    {
        "CalledProcessError",
        "ChildFailedError",
        "KeyboardInterrupt",
        "ProcessExitedException",
        "ProcessRaisedException",
        "RayTaskError",
        "SystemExit",
        "ncclInternalError",
        "ncclRemoteError",
        "ncclSystemError",
        "ncclUnhandledCudaError",
    }
)
"""Exceptions that only report another process's, and NCCL's second lines."""

_WRAPPING = ("Engine core initialization failed", "Engine process failed to start", "Worker failed with error")
"""Messages of vLLM that only report the failure of another process."""

_OF_A_STOP = (9, 15)
"""SIGKILL and SIGTERM: a job that ended by one of them for a stated reason was stopped, whatever its log says."""

_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
    "Exception ignored in",
)
"""Lines between an exception and a later one that it caused: the exception before them in the log counts."""


def diagnose(failure: Failure, log_end: bytes) -> Diagnosis | None:
    """Return the diagnosis, or None if the cause is unknown. `log_end` is the part of the log's end that was read.

    Facts of the runtime outrank the log, and the log outranks guesses from a bare signal.
    """
    if not failure.exit_code:
        return None
    known = host.of_ending(failure)
    if known is not None or (failure.reason is not None and failure.signal in _OF_A_STOP):
        return known
    case = Case(failure, lines_of(log_end))
    return _in_log(case) or host.of_full_output(failure) or host.of_signal(failure) or crashes.of_crash(case)


def _in_log(case: Case) -> Diagnosis | None:
    """Return the diagnosis of the last known error, searched from the end.

    An unknown error ends the search: the job had got past everything before it. The search goes on if the log says that
    one error caused the other. A usual consequence counts only if no known error comes before it.
    """
    consequence: Diagnosis | None = None
    beyond = False
    for line in reversed(case.lines):
        if beyond:
            beyond = not line.text.startswith(_CHAINED)
            if beyond and line.exceptions:
                break
            continue
        found = _first(line, case)
        if found is None:
            beyond = _is_unknown_error(line)
        elif not found.consequence:
            return found
        else:
            consequence = consequence or found
    return consequence


def _first(line: LogLine, case: Case) -> Diagnosis | None:
    """Return the diagnosis of the first rule that applies."""
    return next((found for rule in RULES if (found := rule.applies(line, case)) is not None), None)


def _is_unknown_error(line: LogLine) -> bool:
    """Return whether the line is an exception that no rule knows and that does not merely report another's."""
    if not line.exceptions:
        return False
    return line.exceptions[0] not in _WRAPPERS and not line.text.startswith(_WRAPPING)
