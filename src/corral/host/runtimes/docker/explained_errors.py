"""Explains messages of Docker and runc about containers that cannot run. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from corral.host.runtimes.docker.records import Fault

FAILED, CANNOT_RUN, NOT_FOUND = 125, 126, 127
"""Exit codes as those of `docker run`: Docker failed, the program cannot run, the program is not found."""

_SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a container never began: its exit code, the explanation, and the kind of fault."""

    code: int
    reason: str
    fault: Fault = Fault.LASTING


def explained(said: str, image: str, program: str) -> Refusal:
    """Explain Docker's refusal to start `program` in `image`. An unknown message is passed on as it is."""
    for pattern, explain in _KNOWN:
        if match := pattern.search(said):
            return explain(match, image, program[:_SHOWN_CHARS])
    return Refusal(FAILED, f"Docker cannot run the container: {said}", Fault.JOB)


def _missing(_match: re.Match[str], image: str, program: str) -> Refusal:
    return Refusal(NOT_FOUND, f"command not found in the image {image}: {program}")


def _no_file(_match: re.Match[str], image: str, program: str) -> Refusal:
    if "/" not in program:
        return Refusal(NOT_FOUND, f"cannot run {program} of the image {image}: what runs it is not in the image")
    return Refusal(
        NOT_FOUND, f"no such file in the image {image}: {program}, or its first line names an interpreter that is not"
    )


def _not_executable(_match: re.Match[str], image: str, program: str) -> Refusal:
    words = f"cannot run {program} of the image {image}: permission denied; is it a file and executable (chmod +x)?"
    return Refusal(CANNOT_RUN, words)


def _other_machine(_match: re.Match[str], image: str, program: str) -> Refusal:
    words = "it is for machines of another kind, or a script without a #! first line"
    return Refusal(CANNOT_RUN, f"cannot run {program} of the image {image}: {words}")


def _workdir(match: re.Match[str], _image: str, _program: str) -> Refusal:
    return Refusal(CANNOT_RUN, f"cannot enter the working directory {match[1]} in the container: {match[2]}")


def _no_gpus(_match: re.Match[str], _image: str, _program: str) -> Refusal:
    words = "Docker cannot give GPUs to containers on this node: the NVIDIA container toolkit is missing there"
    return Refusal(FAILED, f"{words}; `corral doctor` says what to install")


def _network(match: re.Match[str], _image: str, _program: str) -> Refusal:
    return Refusal(FAILED, f"this node's Docker has no network {match[1]}; see `docker network ls` there")


def _user(match: re.Match[str], image: str, _program: str) -> Refusal:
    return Refusal(FAILED, f"the image {image} knows no user or group {match[1]}; give numbers: --user UID:GID")


_KNOWN: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str, str], Refusal]], ...] = (
    (re.compile(r'chdir to cwd \("([^"]*)"\)[^:]*: ([a-z ]+)'), _workdir),
    (re.compile(r"executable file not found"), _missing),
    (re.compile(r"exec format error"), _other_machine),
    (re.compile(r"exec.*no such file or directory", re.DOTALL), _no_file),
    (re.compile(r"exec.*(?:permission denied|is a directory)", re.DOTALL), _not_executable),
    (re.compile(r"could not select device driver"), _no_gpus),
    (re.compile(r"network (\S+) not found"), _network),
    (re.compile(r"unable to find (?:user|group) ([^:]+): no matching entries"), _user),
)
