"""Names and labels of pods and services of jobs. They are deterministic, so that nothing runs twice."""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.core.model.errors import BackendFailed
from corral.core.model.runs.launch import launch_id, member_of
from corral.files import made_once

PREFIX = "corral.dev/"
SERVER = PREFIX + "server"
ALLOCATION = PREFIX + "allocation"
RANK = PREFIX + "rank"
TOMBSTONE = PREFIX + "tombstone"
"""The labels of a pod: its server, its gang and its member. A pod with the last label exists only to keep its name from
being used again.
"""

LAUNCH = PREFIX + "launch"
MEMBERS = PREFIX + "members"
NODE = PREFIX + "node"
CHECKPOINT_GRACE = PREFIX + "checkpoint-grace-s"
ENDING = PREFIX + "ending"
REASON = PREFIX + "reason"
"""The annotations of a pod: its launch, the number of members, its node, and the time to save its work.

If Corral ends the pod, the annotations also have the phase in which it ends, and the reason.
"""

FINALIZER = PREFIX + "report"
"""The finalizer that keeps a deleted pod until its end is in the ledger."""

DESCRIBED = ("user", "project", "queue", "job", "job-name")
"""Attributes of a job on its pods: as a label for selection, and in full as an annotation."""

_TAG = re.compile(r"[a-z0-9]{4,12}", re.ASCII)
_NO_LABEL = re.compile(r"[^-A-Za-z0-9_.]+", re.ASCII)
_LABEL_LENGTH = 63


@dataclass(frozen=True, slots=True)
class Names:
    """The names that one server gives in its cluster. `tag` distinguishes the server from others and belongs to its
    ledger.
    """

    tag: str

    def __post_init__(self) -> None:
        if _TAG.fullmatch(self.tag) is None:
            raise ValueError(f"{self.tag!r} is no tag: 4 to 12 small letters and digits")

    def marks(self, labels: Mapping[str, object]) -> bool:
        """Return whether a pod with these labels belongs to this server."""
        return labels.get(SERVER) == self.tag

    def pod(self, launch: str) -> str:
        """Return the name of a launch's pod, which is also its hostname: at most 63 characters. No two launches have
        the same.

        17_3.2-1 is element 3 of job 17, its second allocation, rank 1: corral-TAG-17e3-2-1.
        """
        allocation_id, rank = member_of(launch)
        return f"{self.service(allocation_id)}-{rank}"

    def service(self, allocation_id: str) -> str:
        """Return the name of the service by which the members of a gang find each other."""
        name = f"corral-{self.tag}-{allocation_id.replace('_', 'e').replace('.', '-')}"
        if len(name) <= _LABEL_LENGTH - 8:
            return name
        # The limit is for numbers of twenty digits, which no ledger reaches. A cut name could be that of another job.
        return f"corral-{self.tag}-{hashlib.sha256(allocation_id.encode()).hexdigest()[:32]}"

    def address(self, allocation_id: str, namespace: str) -> str:
        """Return the address of the rank 0 member of a gang in the cluster's DNS."""
        first = self.pod(launch_id(allocation_id, 0))
        return f"{first}.{self.service(allocation_id)}.{namespace}.svc"


def label_value(text: str) -> str:
    """Return the text as the value of a label: invalid characters become "-", and a long text is cut.

    A changed text gets a hash, so that two users never get the same value.
    """
    cut = _NO_LABEL.sub("-", text)[:_LABEL_LENGTH].strip("-_.")
    if cut == text:
        return cut
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{cut[: _LABEL_LENGTH - 9].rstrip('-_.')}-{digest}" if cut else f"x-{digest}"


_TAG_BYTES = 4


def names_of_server(file: Path) -> Names:
    """Return the names of the server of a home, with the tag in the file. The file is made if it is missing.

    The tag belongs to the ledger: with another tag the server would recognize none of the ledger's pods. Raises
    BackendFailed if the file cannot be read or made, or has no tag.
    """
    try:
        return Names(made_once(file, f"{secrets.token_hex(_TAG_BYTES)}\n").strip())
    except (OSError, ValueError) as error:
        raise BackendFailed(f"cannot read the tag of this server's pods in {file}: {error}") from None
