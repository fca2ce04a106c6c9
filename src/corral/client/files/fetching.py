"""Fetches the directory that a job has left. Nothing newer is overwritten, and nothing is written elsewhere."""

import base64
import binascii
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from corral.client.connecting.transport import Transport, job_path
from corral.core.model.answers.files import LeftFiles
from corral.core.model.errors import BackendFailed, NotFound, Refused
from corral.core.model.files.left_state import LeftState
from corral.core.model.files.tree import Entry, check_tree
from corral.trees.text import digest_of
from corral.trees.walking import pieces
from corral.wire import from_answer

READ_WITHIN_S = 600.0
"""A node reads a large directory for some minutes after the end of its job."""

_PAUSE_S = 0.1
_ASKED_AT_ONCE = 1000
_TEMPORARY = ".corral-fetch"


@dataclass(slots=True)
class Fetched:
    """What was fetched.

    Attributes:
        directory: where it is.
        files: how many files the job has left, with those that were here already.
        size_bytes: the size of these files.
        written: how many were written.
        kept: paths that were not replaced, each with the reason.
        left_out: paths that the node could not keep, with the reasons.
    """

    directory: str
    files: int = 0
    size_bytes: int = 0
    written: int = 0
    kept: list[str] = field(default_factory=list)
    left_out: tuple[str, ...] = ()


def left_files(transport: Transport, job_id: str, rank: int) -> LeftFiles:
    """Return what an ended job has left, once its node has read it. Raises NotFound if there is nothing (any more)."""
    give_up_at = time.monotonic() + READ_WITHIN_S
    while True:
        found = from_answer(LeftFiles, transport.get(job_path(job_id, "files"), rank=rank))
        match found.state:
            case LeftState.READY:
                return found
            case LeftState.NOTHING:
                raise NotFound(f"job {job_id} has left no directory {found.directory}")
            case LeftState.GONE:
                raise NotFound(f"the directory {found.directory} of job {job_id} is not kept any more")
            case LeftState.FAILED:
                raise BackendFailed(
                    f"the directory {found.directory} of job {job_id} could not be kept: {found.reason}"
                )
        if time.monotonic() > give_up_at:
            raise BackendFailed(f"the node still reads what job {job_id} has left; fetch it later")
        time.sleep(_PAUSE_S)


def fetch(
    transport: Transport, job_id: str, found: LeftFiles, directory: str, *, rank: int = 0, force: bool = False
) -> Fetched:
    """Write what a job has left into a directory. Files here that are newer are kept, unless `force`."""
    if found.tree is None:
        raise BackendFailed(f"the server did not say what job {job_id} has left; it may be of another version")
    tree = check_tree(found.tree)
    fetched = Fetched(directory, tree.files, tree.size_bytes, left_out=found.left_out)
    ahead_s = time.time() - found.now
    os.makedirs(directory, exist_ok=True)
    wanted: list[Entry] = []
    for entry in tree.entries:
        if (reason := _kept_because(directory, entry, ahead_s, force)) is not None:
            if reason:
                fetched.kept.append(f"{entry.path}: {reason}")
        elif entry.link is not None:
            _put_link(directory, entry.path, entry.link)
        elif entry.chunks is None:
            os.makedirs(os.path.join(directory, entry.path), exist_ok=True)
        else:
            wanted.append(entry)
    contents = _contents(transport, job_id, rank, [digest for entry in wanted for digest in entry.chunks or ()])
    for entry in wanted:
        _put_file(directory, entry, contents)
        fetched.written += 1
    for entry in reversed(tree.entries):
        if entry.chunks is None and entry.link is None:
            with suppress(OSError):
                os.chmod(os.path.join(directory, entry.path), entry.mode | stat.S_IRWXU)
    return fetched


def _kept_because(directory: str, entry: Entry, ahead_s: float, force: bool) -> str | None:
    """Why what is here stays: "" if it is the same, else a reason. None if the entry is to be written."""
    names = entry.path.split("/")
    for end in range(1, len(names)):
        above = os.path.join(directory, *names[:end])
        if os.path.islink(above) or not os.path.isdir(above):
            return f"{'/'.join(names[:end])} is no directory here"
    path = os.path.join(directory, entry.path)
    try:
        here = os.lstat(path)
    except FileNotFoundError:
        return None
    is_directory = entry.chunks is None and entry.link is None
    if is_directory or stat.S_ISDIR(here.st_mode):
        if is_directory and stat.S_ISDIR(here.st_mode):
            return ""
        return "a directory is here" if not is_directory else "a file is here in place of the directory"
    if _is_same(path, here, entry):
        return ""
    # The times of the entries are by the node's clock.
    if not force and here.st_mtime > entry.modified_at + 1 + ahead_s:
        return "the file here is newer"
    return None


def _is_same(path: str, here: os.stat_result, entry: Entry) -> bool:
    if entry.link is not None:
        return stat.S_ISLNK(here.st_mode) and os.readlink(path) == entry.link
    if not stat.S_ISREG(here.st_mode) or here.st_size != entry.size_bytes:
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return tuple(map(digest_of, pieces(fd))) == entry.chunks
    finally:
        os.close(fd)


def _put_link(directory: str, path: str, target: str) -> None:
    draft = _draft(directory, path)
    os.symlink(target, draft)
    os.replace(draft, os.path.join(directory, path))


def _put_file(directory: str, entry: Entry, contents: Iterator[bytes]) -> None:
    draft = _draft(directory, entry.path)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.writelines(next(contents) for _ in entry.chunks or ())
            file.flush()
            os.fchmod(fd, entry.mode)
            os.utime(fd, (entry.modified_at, entry.modified_at))
        os.replace(draft, os.path.join(directory, entry.path))
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise


def _draft(directory: str, path: str) -> str:
    draft = os.path.join(directory, os.path.dirname(path), f"{_TEMPORARY}-{os.getpid()}")
    with suppress(FileNotFoundError):
        os.unlink(draft)
    return draft


def _contents(transport: Transport, job_id: str, rank: int, digests: list[str]) -> Iterator[bytes]:
    """The contents of these digests, in their order; the same content may come several times."""
    at = 0
    while at < len(digests):
        asked = digests[at : at + _ASKED_AT_ONCE]
        body = {"digests": asked, "rank": rank}
        answer = transport.post(job_path(job_id, "files", "contents"), body, repeatable=True)["contents"]
        if not answer:
            raise BackendFailed(f"the node no longer gives the files of job {job_id}")
        for digest, encoded in zip(asked, answer, strict=False):
            try:
                content = base64.b64decode(encoded, validate=True)
            except (ValueError, binascii.Error):
                content = b""
            if digest_of(content) != digest:
                raise Refused(f"the server sent another content than that of a file of job {job_id}; fetch it again")
            yield content
        at += len(answer)
