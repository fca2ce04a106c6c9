"""The directories of jobs whose users share no file system with this host: made before a launch, kept after the end.

A directory is made where nobody else can enter, and then moved into the scratch of its job, whose user may do anything
there. What the job leaves is read before its scratch is removed.
"""

import base64
import json
import logging
import os
import posixpath
import re
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from corral.core.model.errors import BackendFailed, CorralError, NodeLacks, Refused
from corral.core.model.files.tree import MOST_CONTENT_BYTES, Tree, fault_of_path
from corral.core.model.printable import printable
from corral.core.model.runs.launch import Launch
from corral.core.model.units import format_bytes
from corral.core.ports.host import Credentials
from corral.core.ports.node import Gathered, GatherState, LaidOut, TreeOrder
from corral.files import write_whole
from corral.host.contents.content_store import LEAST_FREE_BYTES, ContentStore
from corral.host.contents.tree_layout import lay_out
from corral.host.node.device_setup import WorkerQueues
from corral.host.sharing.scratch import descriptor, is_mounted_below, remove
from corral.trees.text import MOST_IN_PACK, PACK_BYTES, tree_of, tree_text
from corral.trees.walking import Walk
from corral.untrusted import guarded
from corral.wire import bytes_in, from_plain, to_plain

log = logging.getLogger(__name__)

DIRECTORY = "files"
"""The name of the directory in the scratch of its job."""

MOST_REMEMBERED = 20_000
"""The most jobs of which the node knows what they have left."""

_MOST_LEFT_OUT = 20
_MOST_RECORD_BYTES = 256 * 1024
_JOB_ID = re.compile(r"\d{1,20}(_\d{1,20})?")


@dataclass(frozen=True, slots=True)
class _Record:
    """What is on disk of a job's directory; `gathered` once the job has ended here."""

    order: TreeOrder
    made_at: float
    gathered: Gathered | None = None


@dataclass(slots=True)
class _Making:
    """A directory that is being made."""

    written_bytes: int = 0
    failure: CorralError | None = None


class JobTrees:
    """Implements `corral.core.ports.node.Trees`. Safe from any thread."""

    def __init__(
        self,
        root: Path,
        scratch: Path,
        *,
        most_bytes: int,
        most_bytes_of_user: int,
        keep_s: float,
        credentials: Callable[[Credentials | None], Credentials | None] | None = None,
    ) -> None:
        """`most_bytes` is the limit of one directory, `most_bytes_of_user` that of all contents of a user here.

        `credentials` returns a user's numbers here, where they are not those of the server's host.
        """
        self._credentials = credentials
        self._records = root / "jobs"
        self._scratch = scratch
        self._most_bytes = most_bytes
        self._keep_s = keep_s
        self._store = ContentStore(root / "contents", most_bytes=most_bytes_of_user, keep_s=keep_s)
        self._queues = WorkerQueues("trees")
        self._lock = threading.Lock()
        self._making: dict[str, _Making] = {}
        self._by_root = os.geteuid() == 0
        self._looked_at = float("-inf")

    def close(self) -> None:
        """End the threads. The next agent begins anew."""
        self._queues.close()

    def missing(self, order: TreeOrder) -> tuple[str, ...]:
        if self._store.missing(order.user, (order.tree,)):
            return (order.tree,)
        tree = self._tree(order.user, order.tree)
        if tree.size_bytes > self._most_bytes:
            raise Refused(
                f"the directory has {format_bytes(tree.size_bytes)}, and {format_bytes(self._most_bytes)} is the limit "
                "of this node",
                field="upload",
            )
        return self._store.missing(order.user, (digest for digest, _ in tree.contents()))[:MOST_IN_PACK]

    def add(self, user: str, contents: tuple[str, ...]) -> None:
        for content in contents:
            self._store.add(user, bytes_in(content, MOST_CONTENT_BYTES, field="contents"))

    def lay_out(self, order: TreeOrder) -> LaidOut:
        _check_job(order.job_id)
        order = self._for_here(order)
        with self._lock:
            making = self._making.get(order.job_id)
            if making is None and self._is_there(order):
                return LaidOut(done=True)
            if making is None:
                making = self._making[order.job_id] = _Making()
                self._queues.put(order.user, partial(self._make, order, making))
            elif making.failure is not None:
                del self._making[order.job_id]
                raise making.failure
            return LaidOut(done=False, written_bytes=making.written_bytes)

    def _for_here(self, order: TreeOrder) -> TreeOrder:
        if self._credentials is None:
            return order
        who = self._credentials(Credentials(0, 0, (), order.user))
        return replace(order, uid=None if who is None else who.uid, gid=None if who is None else who.gid)

    def _is_there(self, order: TreeOrder) -> bool:
        record = self._record(order.job_id)
        same = record is not None and replace(record.order, download=order.download) == order
        return same and os.path.isdir(self.directory_of(order.job_id))

    def directory_of(self, job_id: str) -> Path:
        """Return where the directory of a job is."""
        return self._scratch / job_id / DIRECTORY

    def _make(self, order: TreeOrder, making: _Making) -> None:
        aside = f".{order.job_id}.{time.time_ns()}"
        try:
            try:
                self._write(order, aside, making)
                self._put_record(_Record(order, time.time()))
                self._move(order.job_id, aside)
            except OSError as error:
                shown = printable(str(error.filename or self.directory_of(order.job_id)))[:300]
                raise NodeLacks(f"its files cannot be written here: {shown}: {error.strerror}") from error
            finally:
                remove(self._scratch, aside)
        except CorralError as error:
            making.failure = error
            return
        with self._lock:
            self._making.pop(order.job_id, None)

    def _write(self, order: TreeOrder, aside: str, making: _Making) -> None:
        if not self._scratch.is_dir():
            self._scratch.mkdir()
            self._scratch.chmod(0o755 if self._by_root else 0o700)
        top = self._scratch / aside
        top.mkdir(mode=0o700)
        (top / DIRECTORY).mkdir(mode=0o700)
        owner = (order.uid, order.gid) if order.uid is not None and order.gid is not None else None

        tree = self._tree(order.user, order.tree)
        self._keep_room(tree.size_bytes)

        def wrote(count: int) -> None:
            making.written_bytes += count
            self._keep_room(0)

        fd = os.open(top / DIRECTORY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            owner = owner if self._by_root else None
            lay_out(tree, partial(self._store.read, order.user), fd, owner, wrote)
            if owner is not None:
                os.fchown(fd, *owner)
        finally:
            os.close(fd)

    def _keep_room(self, size: int) -> None:
        """Raise NodeLacks if so many more bytes would leave the disk less than is kept free for everything else."""
        disk = os.statvfs(self._scratch)
        free = disk.f_bavail * disk.f_frsize
        if free < LEAST_FREE_BYTES + size:
            raise NodeLacks(
                f"its files cannot be written here: the disk of {self._scratch} has {format_bytes(free)} free, they "
                f"need {format_bytes(size)}, and {format_bytes(LEAST_FREE_BYTES)} is kept free"
            )

    def _move(self, job_id: str, aside: str) -> None:
        with suppress(FileExistsError):
            # It is private until the launch is set up, which gives it to the job's user.
            (self._scratch / job_id).mkdir(mode=0o700)
        with descriptor(self._scratch) as top, descriptor(aside, top) as made, descriptor(job_id, top) as home:
            os.rename(DIRECTORY, DIRECTORY, src_dir_fd=made, dst_dir_fd=home)

    def check_made(self, launch: Launch) -> None:
        """Raise BackendFailed if a launch is to run in a directory that is not here."""
        if launch.job.spec.upload is not None and not os.path.isdir(self.directory_of(launch.job.id)):
            raise BackendFailed(f"the files of job {launch.job.id} are not on this node")

    def in_its_directory(self, launch: Launch) -> Launch:
        """Return a launch that runs in the directory made for it; other launches stay as they are."""
        spec = launch.job.spec
        if spec.upload is None:
            return launch
        moved = partial(_moved, source=spec.upload.source, here=str(self.directory_of(launch.job.id)))
        env = tuple(
            (name, moved(value) if name in ("PWD", "SLURM_SUBMIT_DIR") else value) for name, value in launch.env
        )
        output, error, source = (None if path is None else moved(path) for path in _files_of(launch))
        job = replace(launch.job, spec=replace(spec, workdir=moved(spec.workdir)))
        dirs = tuple(map(moved, launch.checkpoint_dirs))
        return replace(launch, job=job, env=env, output=output, error=error, input=source, checkpoint_dirs=dirs)

    def gather(self, job_id: str) -> None:
        """Keep what a job has left for its user, once it has ended here. Does nothing a second time.

        Raises BackendFailed if the disk fails; the next agent tries it again.
        """
        record = self._record(job_id)
        if record is None or record.gathered is not None:
            return
        try:
            self._gather(job_id, record)
        except OSError as error:
            raise BackendFailed(f"what job {job_id} has left cannot be kept: {error.strerror}") from error

    def _gather(self, job_id: str, record: _Record) -> None:
        try:
            found = self._gathered(record.order)
        except OSError as error:
            found = Gathered(GatherState.FAILED, reason=f"it cannot be read: {error.strerror}")
        except CorralError as error:
            found = Gathered(GatherState.FAILED, reason=str(error))
        if record.order.download is None:
            self._path(job_id).unlink(missing_ok=True)
        else:
            self._put_record(replace(record, gathered=found))

    def _gathered(self, order: TreeOrder) -> Gathered:
        if order.download is None:
            return Gathered(GatherState.NOTHING)
        place = posixpath.normpath(order.download)
        if place != "." and (fault := fault_of_path(place)) is not None:
            return Gathered(GatherState.FAILED, reason=f"{printable(place)[:300]} cannot be kept: {fault}")
        names = [DIRECTORY, *(name for name in place.split("/") if name != ".")]
        if is_mounted_below(str(self._scratch / order.job_id)):
            return Gathered(GatherState.FAILED, reason="another file system is mounted in it")
        walk = Walk(
            take=partial(self._store.add, order.user),
            most_bytes=self._most_bytes,
            owner=order.uid if self._by_root else None,
        )
        try:
            with descriptor(self._scratch) as top, descriptor(order.job_id, top) as home:
                tree = _below(home, names, walk)
        except (FileNotFoundError, NotADirectoryError):
            return Gathered(GatherState.NOTHING)
        left_out = [f"{printable(path)[:300]}: {why}" for path, why in walk.faults[:_MOST_LEFT_OUT]]
        if len(walk.faults) > _MOST_LEFT_OUT:
            left_out.append(f"and {len(walk.faults) - _MOST_LEFT_OUT} more")
        return Gathered(GatherState.READY, self._store.add(order.user, tree_text(tree)), tuple(left_out))

    def unfinished(self, going_on: Collection[str]) -> list[Callable[[], None]]:
        """Return the steps that keep what jobs have left whose end no agent has seen; `going_on` are jobs that run or
        are to run again.
        """
        with suppress(FileNotFoundError):
            names = [name.removesuffix(".json") for name in os.listdir(self._records) if name.endswith(".json")]
            return [partial(self.gather, name) for name in names if _JOB_ID.fullmatch(name) and name not in going_on]
        return []

    def gathered(self, job_id: str, mark: str) -> Gathered:
        record = self._record(_check_job(job_id))
        if record is None or record.order.mark != mark:
            return Gathered(GatherState.UNKNOWN, now=time.time())
        found = record.gathered or Gathered(GatherState.WAITING)
        return replace(found, now=time.time())

    def read(self, job_id: str, mark: str, digests: tuple[str, ...]) -> tuple[str, ...]:
        record = self._record(_check_job(job_id))
        if record is None or record.order.mark != mark or record.gathered is None or record.gathered.tree is None:
            raise NodeLacks(f"nothing of job {job_id} is kept here any more")
        contents: list[str] = []
        size = 0
        for digest in digests[:MOST_IN_PACK]:
            content = self._store.read(record.order.user, digest)
            size += len(content)
            if contents and size > PACK_BYTES:
                break
            contents.append(base64.b64encode(content).decode())
        return tuple(contents)

    def _tree(self, user: str, digest: str) -> Tree:
        return tree_of(self._store.read(user, digest))

    def _path(self, job_id: str) -> Path:
        return self._records / f"{job_id}.json"

    def _record(self, job_id: str) -> _Record | None:
        path = self._path(job_id)
        try:
            # Where the agent is not root's, jobs can write here too.
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("%s cannot be read: %s", path, error.strerror)
            return None
        with os.fdopen(fd, "rb") as file:
            text = file.read(_MOST_RECORD_BYTES)
        found = guarded(str(path), lambda: from_plain(_Record, json.loads(text)))
        return found if isinstance(found, _Record) else None

    def _put_record(self, record: _Record) -> None:
        self._records.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._path(record.order.job_id), json.dumps(to_plain(record, compact=True)))

    def remove_expired(self, *, every_s: float = 0.0) -> None:
        """Forget what jobs have left long ago, at most `every_s` seconds after the last time.

        Raises BackendFailed if the disk fails.
        """
        now = time.monotonic()
        if now - self._looked_at < every_s:
            return
        self._looked_at = now
        try:
            found = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(self._records))
            for at, (changed_at, path) in enumerate(found):
                if changed_at < time.time() - self._keep_s or at < len(found) - MOST_REMEMBERED:
                    os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise BackendFailed(f"{self._records} cannot be cleaned up: {error.strerror}") from error


def _below(above: int, names: list[str], walk: Walk) -> Tree:
    """Return the tree of the directory that these names lead to, one after the other."""
    if not names:
        return walk.of(above)
    with descriptor(names[0], above) as fd:
        return _below(fd, names[1:], walk)


def _moved(path: str, *, source: str, here: str) -> str:
    """Return the place in the directory for a path below its source; any other path stays."""
    plain = posixpath.normpath(path) if path else path
    if plain == source:
        return here
    return posixpath.join(here, plain[len(source) :].lstrip("/")) if _is_below(plain, source) else path


def _is_below(path: str, source: str) -> bool:
    return path.startswith(source if source.endswith("/") else f"{source}/")


def _files_of(launch: Launch) -> tuple[str | None, str | None, str | None]:
    return launch.output, launch.error, launch.input


def _check_job(job_id: str) -> str:
    if _JOB_ID.fullmatch(job_id) is None:
        raise Refused(f"{job_id!r:.60} is not the id of a job", field="job_id")
    return job_id
