"""From a failure and the end of its log to one diagnosis, or to none: no diagnosis is better than a wrong one."""

from corral.diagnosis import crashes, cuda, gpu_memory, host, nccl, vllm
from corral.diagnosis.failure import Diagnosis, Failure
from corral.diagnosis.log_end import LogLine, lines_of
from corral.diagnosis.rule import Case, Rule

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
"""Exceptions that only tell of another process's, and NCCL's second lines."""

_WRAPPING = ("Engine core initialization failed", "Engine process failed to start", "Worker failed with error")
"""The same in vLLM's words."""

_OF_A_STOP = (9, 15)
"""SIGKILL and SIGTERM: a job that ended by one of them for a stated reason was stopped, whatever it said then."""

_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
    "Exception ignored in",
)
"""Between an exception and the one that it led to (or that came of ending): what counts is before it in the log."""


def diagnose(failure: Failure, log_end: bytes) -> Diagnosis | None:
    """What happened and what to do, None where it is not known. `log_end` is as much of the log's end as was read.

    What the runtime knows of the end goes before the log; the log before what a bare signal may mean.
    """
    if not failure.exit_code:
        return None
    known = host.of_ending(failure)
    if known is not None or (failure.reason is not None and failure.signal in _OF_A_STOP):
        return known
    case = Case(failure, lines_of(log_end))
    return _in_log(case) or host.of_full_output(failure) or host.of_signal(failure) or crashes.of_crash(case)


def _in_log(case: Case) -> Diagnosis | None:
    """The last error that is known, sought from the end on.

    An error that is not known ends the search, for the job has then got beyond what came before it; unless the log says
    that one led to the other. What mostly is a consequence is believed where nothing known comes before it.
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
    """What the first rule that applies says."""
    return next((found for rule in RULES if (found := rule.applies(line, case)) is not None), None)


def _is_unknown_error(line: LogLine) -> bool:
    """Whether the line is an exception that no rule knows, and that does not merely tell of another's."""
    if not line.exceptions:
        return False
    return line.exceptions[0] not in _WRAPPERS and not line.text.startswith(_WRAPPING)
