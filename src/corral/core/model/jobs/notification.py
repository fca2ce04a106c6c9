"""Notifications of a user about their job: messages to a channel, and a command to run after the job's end."""

import re
from dataclasses import dataclass
from enum import StrEnum

from corral.core.model.errors import Refused

MAX_COMMAND_LENGTH = 4096

TIME_LIMIT_S = 60.0
"""A command that runs longer than this is stopped."""

_ID = re.compile(r"\d{1,20}(_\d{1,20})?-\d{1,20}", re.ASCII)


class NotifyOn(StrEnum):
    """The events of a job that a user's channel reports.

    DONE is a final end with success. FAILED is any other final end, including a job that was cancelled or never
    started.
    """

    STARTED = "started"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Notification:
    """A command to run once on one node, as the user of a job that has ended.

    Attributes:
        id: identifies the job or array and this end of it: a node runs no id twice.
        job_id: the job whose log gets the command's output.
        command: for `/bin/sh -c`.
        env: complete except for CORRAL_HOME and CORRAL_LOG, which only the node knows.
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
    """Return the id, which is safe as part of a file's name. Raises Refused if it is not the id of a notification."""
    if _ID.fullmatch(notification_id) is None:
        raise Refused(f"{notification_id!r:.60} is not the id of a notification", field="id")
    return notification_id
