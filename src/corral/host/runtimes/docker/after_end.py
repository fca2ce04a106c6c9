"""The report of a launch whose container is over: from the runner's record, and from Docker's state of the
container.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Again, LaunchPhase, LaunchReport
from corral.host.runtimes.docker.records import Fault, RunnerState
from corral.host.runtimes.process.procfs import boot_id

_OF_ANOTHERS_DOING = (0, 128 + signal.SIGKILL, 128 + signal.SIGTERM)
"""Exit codes that do not show whether the program was stopped from outside. With them, the end of a container whose
runner was killed stays unknown.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """Docker's state of a container whose runner reported no end: whether it ever began, and its own exit code."""

    began: bool
    exit_code: int | None


def own_exit_code(container: Mapping[str, Any], state: RunnerState) -> int | None:
    """Return the exit code with which the container surely failed by itself; None if it may have been stopped.

    It may have been stopped if the host restarted since, or by this server, which ends leftovers with SIGKILL.
    """
    here = state.main is not None and state.main.boot_id == boot_id()
    code = int(container["ExitCode"])
    return code if here and container["Status"] == "exited" and code not in _OF_ANOTHERS_DOING else None


def ended_report(told: LaunchReport, state: RunnerState, found: Found) -> LaunchReport:
    """Return the report of a launch whose container is over. `told` is the report of its runner's process, EXITED or
    DEAD.
    """
    began = state.main is not None or (not state.ended and found.began)
    if told.phase is LaunchPhase.DEAD:
        return _without_supervisor(told, state, found.exit_code if not state.ended else state.exit_code)
    if told.ending is Phase.TIMED_OUT and not began and state.waits_for:
        return replace(told, reason=f"its time limit ended before its container began: {state.waits_for}")
    if told.ending in (Phase.SUCCEEDED, Phase.FAILED):
        match state.fault:
            case Fault.PASSING | Fault.NODE if not began:
                again = Again.ALWAYS if state.fault is Fault.NODE else Again.AS_ASKED
                return LaunchReport(told.launch_id, LaunchPhase.DECLARED_LOST, reason=state.reason, again=again)
            case Fault.NODE:
                return replace(told, ending=Phase.LOST, reason=state.reason)
            case Fault.LASTING:
                return replace(told, reason=told.reason or state.reason, again=Again.NEVER)
    return replace(told, reason=told.reason or state.reason or None)


def _without_supervisor(told: LaunchReport, state: RunnerState, code: int | None) -> LaunchReport:
    """Return the report if the supervisor, which records the end, was killed.

    A success counts only if the runner recorded it and was not told to stop. A stopped job that reports success is
    therefore lost.
    """
    if code is None or state.stopped or state.fault is Fault.NODE:
        return replace(told, reason=told.reason or state.reason or None)
    ending = Phase.SUCCEEDED if code == 0 else Phase.FAILED
    return replace(told, phase=LaunchPhase.EXITED, exit_code=code, ending=ending, reason=state.reason or None)
