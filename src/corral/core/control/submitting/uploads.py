"""The directories that users send before they submit their jobs."""

import posixpath
from collections.abc import Sequence
from dataclasses import replace

from corral.core.access.caller import Caller
from corral.core.model.answers.files import UploadedTree
from corral.core.model.errors import Refused
from corral.core.model.files.tree import Tree
from corral.core.model.jobs.job import JobKind
from corral.core.model.jobs.submission import Submission
from corral.core.ports.uploads import Uploads


class UserUploads:
    """Keeps what users send, each user's apart. Thread-safe."""

    def __init__(self, uploads: Uploads | None) -> None:
        """None is a server whose nodes get no files."""
        self._uploads = uploads

    @property
    def most_bytes(self) -> int:
        """The most bytes that one directory may have. Raises Refused if the nodes get none."""
        return self._store().most_bytes

    def keep(self, tree: Tree, caller: Caller) -> UploadedTree:
        """Keep a directory of the caller, or say what is missing of it. Raises Refused, BackendFailed."""
        return self._store().keep(caller.user, tree)

    def add(self, contents: Sequence[bytes], caller: Caller) -> None:
        """Keep contents of the caller. Raises Refused, BackendFailed."""
        self._store().add(caller.user, contents)

    def settle(self, submission: Submission, caller: Caller) -> Submission:
        """Return the submission with the size of its upload. Raises Refused if the caller has not sent it."""
        upload = submission.upload
        if upload is None:
            return submission
        sent = self._store().of(caller.user, upload.tree)
        if sent is None:
            raise Refused(
                "upload: you have sent no such directory; POST its tree to /uploads first, as `corral submit --upload` "
                "does",
                field="upload",
            )
        return replace(submission, upload=replace(upload, files=sent.files, size_bytes=sent.size_bytes))

    def _store(self) -> Uploads:
        if self._uploads is None:
            raise Refused(
                "upload: the nodes of this server get no files of users; put them where the nodes find them",
                field="upload",
            )
        return self._uploads


def check_upload(submission: Submission) -> None:
    """Raise Refused for an upload, or a directory to keep, that makes no sense."""
    upload, download = submission.upload, submission.download
    if upload is None:
        if download is not None:
            raise Refused("download: it is a directory in what is uploaded; add upload", field="download")
        return
    if submission.kind is not JobKind.RUN:
        raise Refused("upload: nothing runs here that could use files; leave it out", field="upload")
    if not upload.source.startswith("/") or posixpath.normpath(upload.source) != upload.source:
        raise Refused(
            f"upload.source: {upload.source!r:.200} is not an absolute path without . and ..", field="upload.source"
        )
    workdir = posixpath.normpath(submission.workdir)
    if upload.place_of(workdir) is None:
        raise Refused(
            f"workdir: {submission.workdir!r:.200} is not in {upload.source!r:.200}, which is uploaded", field="workdir"
        )
    if download is not None and upload.place_of(posixpath.normpath(posixpath.join(workdir, download))) is None:
        raise Refused(
            f"download: {download!r:.200} is not in the directory that is uploaded; name one in it, such as out",
            field="download",
        )
