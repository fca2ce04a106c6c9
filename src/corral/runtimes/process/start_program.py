"""Executing a job's program: in its own session, with its own environment, directory, limits and user."""

import errno
import json
import os
import resource
import signal
from collections.abc import Callable
from typing import NoReturn

from corral.as_login import take_identity, take_login_standing, take_own_keyring

from . import cgroup
from .outputs import FileFailed, close_outputs, open_input, open_outputs
from .pseudo_terminal import take
from .streams import ProgramEnds
from .supervisor_orders import Command

NOT_FOUND = 127
CANNOT_RUN = 126

_REPORT_BYTES = 65536
_SHOWN_CHARACTERS = 400


class StartFailed(Exception):
    """The program was not executed; `exit_code` is what a shell would return, None where the machine failed."""

    def __init__(self, exit_code: int | None, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message


def start(command: Command, streams: ProgramEnds, cgroup_path: str | None, groups: list[str]) -> int:
    """Execute the program with its ends of `streams`; in place of stdout and stderr with the files that it names.

    The pid, once it surely runs. Raises StartFailed.

    A job of the server's own user is spawned, at a third of what a fork costs: the supervisor takes on the job's
    directory, umask, limits and cgroup for a moment, and the new process inherits them. Of root's server it takes a
    process that gives up what is the server's for good, so then one is forked; and so it is to enter `groups`, cgroups
    that the job must not run outside of, and to take a terminal.
    """
    if command.uid is not None or os.geteuid() == 0 or groups or streams.is_terminal:
        return _fork(command, streams, cgroup_path, groups)
    usual_umask = os.umask(command.umask)
    usual_limits = _lower_limits(command)
    joined = cgroup_path is not None and _join(cgroup_path)
    try:
        enter_workdir(command)
        return _spawn(command, streams)
    finally:
        os.chdir("/")
        os.umask(usual_umask)
        for number, limits in usual_limits.items():
            resource.setrlimit(number, limits)
        if joined:
            cgroup.join(cgroup.own_directory())


def _lower_limits(command: Command) -> dict[int, tuple[int, int]]:
    """Lower this process's soft limits to the job's; what they were, by number."""
    before: dict[int, tuple[int, int]] = {}
    for name, soft in command.rlimits.items():
        number = getattr(resource, name)
        before[number] = resource.getrlimit(number)
        resource.setrlimit(number, (soft, before[number][1]))
    return before


def enter_workdir(command: Command) -> None:
    """Go where the program runs. Raises StartFailed."""
    try:
        os.chdir(command.workdir)
    except OSError as error:
        raise _explain("workdir", error, command) from error


def _join(path: str) -> bool:
    try:
        cgroup.create(path)
        cgroup.join(path)
    except OSError:
        # The job is still found by its descent and by its mark.
        return False
    return True


def _spawn(command: Command, streams: ProgramEnds) -> int:
    stdin = streams.stdin
    try:
        if command.input is not None:
            stdin = open_input(command.input)
        out, err = open_outputs(command.output, command.error, command.append, streams.stdout, streams.stderr)
    except FileFailed as failed:
        _close_input(stdin, streams)
        raise StartFailed(CANNOT_RUN, str(failed)) from failed
    actions = [(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)]
    if stdin >= 0:
        actions.append((os.POSIX_SPAWN_DUP2, stdin, 0))
    try:
        return _found(
            command,
            lambda path: os.posix_spawn(
                path, command.argv, command.env, file_actions=actions, setsid=True, setsigmask=()
            ),
        )
    except OSError as error:
        raise _explain("exec", error, command) from error
    finally:
        if streams.stderr < 0:
            close_outputs(out, err, streams.stdout)
        _close_input(stdin, streams)


def _close_input(stdin: int, streams: ProgramEnds) -> None:
    if stdin != streams.stdin:
        os.close(stdin)


def _found(command: Command, execute: Callable[[str], int]) -> int:
    """What `execute` gives for the program's path. Raises OSError when the program is not found or not executable."""
    failure: OSError | None = None
    for path in _candidates(command):
        try:
            return execute(path)
        except OSError as error:
            # Like a shell: what cannot be executed is remembered, and the search goes on.
            if failure is None or not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                failure = error
    raise failure or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _candidates(command: Command) -> list[str]:
    program = command.argv[0]
    if "/" in program:
        return [program]
    directories = command.env.get("PATH", os.defpath).split(os.pathsep)
    # Asking first is cheaper than a failed spawn for every directory in the path.
    return [path for path in [f"{directory or '.'}/{program}" for directory in directories] if os.path.exists(path)]


def _fork(command: Command, streams: ProgramEnds, cgroup_path: str | None, groups: list[str]) -> int:
    report_reader, report = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(command, streams, report, cgroup_path, groups)
    os.close(report)
    # Ends without a word when the program is executed, for then the child's end closes.
    failure = b""
    while portion := os.read(report_reader, _REPORT_BYTES):
        failure += portion
    os.close(report_reader)
    if failure:
        os.waitpid(pid, 0)
        exit_code, message = json.loads(failure)
        raise StartFailed(exit_code, message)
    return pid


def _become(
    command: Command, streams: ProgramEnds, report: int, cgroup_path: str | None, groups: list[str]
) -> NoReturn:
    """Turn a forked supervisor into the job, or write to `report` why that failed."""
    step = "cgroup"
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        if streams.is_terminal:
            take(streams.stdin)
        if cgroup_path:
            _join(cgroup_path)
        for path in groups:
            cgroup.join(path)
        step = "limits"
        _lower_limits(command)
        step, of_root = "identity", os.geteuid() == 0
        take_login_standing()
        if command.uid is not None:
            become_user(command)
        step = "keyring"
        if of_root:
            take_own_keyring()
        os.umask(command.umask)
        step = "workdir"
        os.chdir(command.workdir)
        stdin = streams.stdin if command.input is None else open_input(command.input)
        out, err = open_outputs(command.output, command.error, command.append, streams.stdout, streams.stderr)
        if stdin >= 0:
            os.dup2(stdin, 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        step = "exec"
        _found(command, lambda path: os.execve(path, command.argv, command.env))
    except FileFailed as failed:
        os.write(report, json.dumps([CANNOT_RUN, str(failed)]).encode())
    except OSError as error:
        failure = _explain(step, error, command)
        os.write(report, json.dumps([failure.exit_code, failure.message]).encode())
    finally:
        os._exit(CANNOT_RUN)


def become_user(command: Command) -> None:
    """Take on the job's user and groups, for good. Raises OSError."""
    assert command.uid is not None
    assert command.gid is not None
    assert command.groups is not None
    take_identity(command.uid, command.gid, command.groups)


def _explain(step: str, error: OSError, command: Command) -> StartFailed:
    """What a person reads when the job's program could not be started; long names of the user's are cut."""
    program, why = _shown(command.argv[0]), error.strerror
    if step == "cgroup":
        return StartFailed(None, f"cannot hold the job to its part of the host: {why}")
    if step == "identity":
        return StartFailed(CANNOT_RUN, f"cannot become user {command.uid}, group {command.gid}: {why}; only root can")
    if step == "keyring":
        return StartFailed(None, f"cannot give the job a keyring of its own: {why} (see kernel.keys in sysctl)")
    if step == "workdir":
        return StartFailed(CANNOT_RUN, f"cannot enter the working directory {_shown(command.workdir)}: {why}")
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        if "/" not in command.argv[0]:
            path = _shown(command.env.get("PATH", os.defpath))
            return StartFailed(NOT_FOUND, f"command not found: {program}; looked in PATH={path}")
        if os.path.exists(os.path.join(command.workdir, command.argv[0])):
            return StartFailed(
                NOT_FOUND, f"cannot run {program}: its first line names an interpreter that does not exist"
            )
        return StartFailed(NOT_FOUND, f"no such file: {program}, seen from {_shown(command.workdir)}")
    if isinstance(error, PermissionError):
        return StartFailed(CANNOT_RUN, f"cannot run {program}: {why}; is it a file and executable (chmod +x)?")
    if error.errno == errno.ENOEXEC:
        return StartFailed(CANNOT_RUN, f"cannot run {program}: neither a program nor a script with a #! first line")
    return StartFailed(CANNOT_RUN, f"cannot run {program}: {why}")


def _shown(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[:_SHOWN_CHARACTERS]}... ({len(text)} characters)"
