"""Checkpoints of a job's program: saved and restored whole, and announced to Corral. The standard library suffices.

>>> from corral.checkpoint import CheckpointManager, on_checkpoint
>>> manager = CheckpointManager("/data/checkpoints")                 # doctest: +SKIP
>>> state = manager.restore_checkpoint("sft") or {"step": 0}         # doctest: +SKIP
>>> on_checkpoint(lambda: manager.save_checkpoint("sft", state))     # doctest: +SKIP

A job with `--checkpoint-signal` or `--checkpoint-dir` finds its directory in `$CORRAL_CHECKPOINT_DIR`. A checkpoint is
whole once `latest` in it names it. Then the next attempt of the job finds it in `$CORRAL_RESTORE`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from _thread import RLock, get_ident

TYPE_CHECKING = False  # importing `typing` would slow down every program
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

__all__ = ["CheckpointManager", "is_preempted", "name_latest", "on_checkpoint", "remaining_s"]

_LATEST, _BEFORE, _FRESH = "latest", ".before", ".new"
_JOB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}", re.ASCII)
_MOST_BYTES = 4096
_ENDING = ("TERM", "INT")

_told_at: list[float] = []
"""When the signal came that ends the program after its grace, by the clock of the boot."""


class _Saving:
    """The saves of this process, one at a time. A signal that interrupts one is answered after it."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._holders: list[int] = []
        self._waiting: list[Callable[[], object]] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        self._holders.append(get_ident())

    def __exit__(self, *_: object) -> None:
        self._holders.pop()
        self._lock.release()
        while self._waiting and get_ident() not in self._holders:
            self._waiting.pop(0)()

    def answer(self, callback: Callable[[], object]) -> None:
        """Call it now, or after the save that this thread has begun."""
        if get_ident() in self._holders:
            self._waiting.append(callback)
        else:
            callback()


_saving = _Saving()


class CheckpointManager:
    """Saves the states of jobs as JSON in a directory, `ID.ckpt` for each, and restores them."""

    def __init__(self, checkpoint_dir: str | os.PathLike[str] | None = None) -> None:
        """Without a directory it is that of this job, `$CORRAL_CHECKPOINT_DIR`. Raises ValueError if there is none."""
        named = checkpoint_dir if checkpoint_dir is not None else os.environ.get("CORRAL_CHECKPOINT_DIR")
        if not named:
            raise ValueError(
                "no directory for checkpoints: $CORRAL_CHECKPOINT_DIR is not set; submit the job with "
                "--checkpoint-signal USR1@60s or --checkpoint-dir DIR, or give a directory"
            )
        self.checkpoint_dir = os.fspath(named)

    def save_checkpoint(self, job_id: str | int, state: Any) -> None:
        """Save the state of a job: all of it or nothing, also if the machine fails. The one before is kept beside it.

        Raises ValueError or TypeError for a state that is not JSON or an id that is not the name of a file, and OSError
        if the disk fails. Then the last checkpoint is unchanged.
        """
        path, text = self._path(job_id), json.dumps(state)
        os.makedirs(self.checkpoint_dir, exist_ok=True)
        with _saving:
            fresh = f"{path}.{os.getpid()}{_FRESH}"
            _write(fresh, text.encode())
            try:
                _keep_before(path)
                os.replace(fresh, path)
            except BaseException:
                _removed(fresh)
                raise
            name_latest(path)

    def restore_checkpoint(self, job_id: str | int) -> Any | None:
        """Return the last state that was saved for a job, None if there is none.

        If the last one was cut or damaged, the one before it is used. Raises ValueError if neither is whole, and
        OSError if they cannot be read.
        """
        path = self._path(job_id)
        try:
            return _read(path)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            try:
                return _read(path + _BEFORE)
            except (FileNotFoundError, ValueError, RecursionError):
                raise ValueError(f"{path} is no whole checkpoint, and there is none before it: {error}") from error

    def _path(self, job_id: str | int) -> str:
        name = str(job_id)
        if _JOB_ID.fullmatch(name) is None:
            raise ValueError(
                f"{name!r:.60} cannot be the name of a checkpoint; use up to 200 letters, digits, and _ . + - "
                "after the first"
            )
        return os.path.join(self.checkpoint_dir, name + ".ckpt")


def name_latest(checkpoint: str | os.PathLike[str]) -> None:
    """Say that a checkpoint is whole: `latest` beside it names it from now on, in one step.

    Call it once the checkpoint is written: a file, or a directory. Raises OSError.
    """
    directory, name = os.path.split(os.path.abspath(os.fspath(checkpoint)))
    fresh = os.path.join(directory, f".{_LATEST}.{os.getpid()}{_FRESH}")
    with _saving:
        _removed(fresh)
        os.symlink(name, fresh)
        os.replace(fresh, os.path.join(directory, _LATEST))
        _flush(directory)


def on_checkpoint(callback: Callable[[], object]) -> None:
    """Call `callback` at each checkpoint signal of this job. Call it in the main thread.

    The callback runs in the main thread, wherever the program is: where only whole steps can be saved, let it set a
    flag that the loop reads. The last callback counts. Processes that this one forks do not call it, and without a
    checkpoint signal nothing does.
    """
    name, owner = os.environ.get("CORRAL_CHECKPOINT_SIGNAL"), os.getpid()
    if not name:
        return

    def called(_signum: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:
            return
        if name in _ENDING and not _told_at:
            _told_at.append(_uptime_s())
        _saving.answer(callback)

    signal.signal(getattr(signal, f"SIG{name}"), called)


def is_preempted() -> bool:
    """Return whether this job is about to be stopped, at its time limit or to make room, and has its time to save."""
    stop = _stop_at()
    return bool(_told_at) or (stop is not None and (stop[1] or stop[0] - _uptime_s() <= _grace_s()))


def remaining_s() -> float | None:
    """Return the seconds until this job is stopped, 0 if they are over; None if nothing is to stop it."""
    stop = _stop_at()
    ends = [_told_at[0] + _grace_s()] if _told_at else []
    if stop is not None:
        ends.append(stop[0])
    return max(0.0, min(ends) - _uptime_s()) if ends else None


def _stop_at() -> tuple[float, bool] | None:
    """Return the time of this job's end by the clock of the boot, and whether it was told to stop."""
    scratch = os.environ.get("CORRAL_SCRATCH")
    if not scratch:
        return None
    try:
        with open(os.path.join(scratch, "config", "stop"), encoding="ascii") as file:
            words = file.read(_MOST_BYTES).split()
        return float(words[0]), words[1] == "preempted"
    except (OSError, ValueError, IndexError):
        return None


def _grace_s() -> float:
    try:
        return float(os.environ.get("CORRAL_CHECKPOINT_GRACE_S", ""))
    except ValueError:
        return 0.0


def _uptime_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _keep_before(path: str) -> None:
    """Keep the checkpoint that is about to be replaced, beside it. Its own place is never empty."""
    if not os.path.exists(path):
        return
    fresh = f"{path}.{os.getpid()}{_BEFORE}{_FRESH}"
    _removed(fresh)
    try:
        os.link(path, fresh)
    except OSError:
        # The file system has no links.
        with open(path, "rb") as file:
            _write(fresh, file.read())
    os.replace(fresh, path + _BEFORE)


def _write(path: str, data: bytes) -> None:
    try:
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        _removed(path)
        raise


def _read(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _removed(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _flush(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
