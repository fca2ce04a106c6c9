"""What a user has run once a job has ended, and what they are told of it: when it is due, and what exactly is run."""

import re
from dataclasses import dataclass
from enum import StrEnum

from corral.core.model.errors import Refused

MAX_COMMAND_LENGTH = 4096

TIME_LIMIT_S = 60.0
"""A notification that takes longer is stopped."""

_ID = re.compile(r"\d{1,20}(_\d{1,20})?-\d{1,20}", re.ASCII)


class NotifyOn(StrEnum):
    """Of what a user is told through their channel.

    DONE is an end for good with success, FAILED any other, also of a job that was cancelled or never started.
    """

    STARTED = "started"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DueNotice:
    """A job or an array has started or ended, and its user is to be told through their channel.

    Attributes:
        job_id: the job; of an array the element that started or ended last.
        started: whether it has started; else it has ended.
        at: when that was, Unix seconds as the server counts them.
    """

    job_id: str
    user: str
    started: bool
    at: float


@dataclass(frozen=True, slots=True)
class DueNotification:
    """A job or an array has ended, and nobody was told yet.

    Attributes:
        job_id: the job; of an array the element that ended last.
        user: whose job it is.
        at: when it ended, Unix seconds as the server counts them.
    """

    job_id: str
    user: str
    at: float


@dataclass(frozen=True, slots=True)
class Notification:
    """A command to be run once on one node, as the user of a job that has ended.

    Attributes:
        id: of the job or array and of this end of it: a node runs no id twice.
        job_id: whose log gets what it says.
        command: for `/bin/sh -c`.
        env: complete but for what only the node knows: CORRAL_HOME and CORRAL_LOG.
        uid, gid, groups: as in `JobSpec`.
    """

    id: str
    job_id: str
    user: str
    command: str
    env: tuple[tuple[str, str], ...]
    workdir: str = "/"
    umask: int = 0o022
    rlimits: tuple[tuple[str, int], ...] = ()
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    time_limit_s: float = TIME_LIMIT_S


def checked_notification_id(notification_id: str) -> str:
    """The id, which is to become part of a file's name. Raises Refused for what is none."""
    if _ID.fullmatch(notification_id) is None:
        raise Refused(f"{notification_id!r:.60} is not the id of a notification", field="id")
    return notification_id
