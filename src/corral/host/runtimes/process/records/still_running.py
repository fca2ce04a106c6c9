"""Finds running launches of a home by the directories and marks of processes, even if the records are gone."""

import hashlib
import os
import re
from pathlib import Path

from corral.host.runtimes.process.procfs import all_pids, read_file
from corral.host.runtimes.process.records.evidence import supervisors
from corral.host.runtimes.process.records.verification import MARK_NAME


def tag_of(home: Path) -> str:
    """Return the tag that distinguishes the launches of a home from others: two servers may both have a launch 1.1."""
    return hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:12]


def still_running(home: Path) -> dict[str, int]:
    """Return the pid of one process of each running launch of this home, by the launch's id."""
    found = {name: living[0].pid for name, living in supervisors(str(home.resolve() / "launches")).items()}
    mark = re.compile(rf"(?:^|\0){MARK_NAME}={tag_of(home)}/([^\0]*)\0".encode())
    for pid in all_pids():
        launch = None if pid == os.getpid() else _launch_of(pid, mark)
        if launch is not None:
            found.setdefault(launch, pid)
    return dict(sorted(found.items()))


def _launch_of(pid: int, mark: "re.Pattern[bytes]") -> str | None:
    try:
        carried = mark.search(read_file(f"/proc/{pid}/environ") + b"\0")
    except OSError:
        return None
    return None if carried is None else carried[1].decode(errors="replace")
