"""The directory that was uploaded for a job."""

from dataclasses import dataclass
from typing import Annotated

from corral.core.model.field import Field, JobOption, Kind

MAX_PATTERNS = 1000


@dataclass(frozen=True, slots=True)
class Upload:
    """A directory of files that a job gets on its node, and in which it runs.

    Attributes:
        source: the directory where it was uploaded from. Paths of the job below it are the same places in the upload.
        excluded: the patterns of what was left out.
        tree: the digest of its `corral.core.model.files.tree.Tree`; "" before it was sent.
        files: how many files it has; the server counts them.
        size_bytes: the size of all files together; the server adds it up.
    """

    source: Annotated[
        str,
        Field(shortest=1, longest=4096),
        JobOption("DIR", "/home/me/project", name="upload", kind=Kind.PATH, own=True),
    ]
    """Send this directory to the node and run in it, where the node does not have your files: .

    In Python: directory to send to the node, in which the job runs. Give it where nodes do not have your files.
    """

    excluded: Annotated[
        tuple[str, ...],
        Field(longest=MAX_PATTERNS),
        JobOption("PATTERN", "['*.pt', 'data/']", name="upload_exclude", kind=Kind.TEXTS, many=True, own=True),
    ] = ()
    """Files of --upload to leave out, as in .corralignore: '*.pt', data/; may be repeated.

    In Python: patterns of files of `upload` to leave out, as in a .corralignore: ["*.pt", "data/"].
    """

    tree: str = ""
    files: int = 0
    size_bytes: int = 0

    def place_of(self, path: str) -> str | None:
        """The place of an absolute path in the directory, relative and "" for itself; None if it is not in it."""
        top = self.source.rstrip("/")
        return path[len(top) + 1 :] if f"{path}/".startswith(f"{top}/") else None
