"""A file system that never answers, as a file server that has gone, or a user who means it, would have it."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def hung_mount(directory: Path, *, uid: int = 0) -> Iterator[None]:
    """Mount on the directory what lets everybody wait who looks into it, as whom `uid` mounted it. Skips if it cannot.

    It is a file system in user space whose program answers nothing.
    """
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"no file system can be made here: {error.strerror}")
    try:
        options = f"fd={device},rootmode=40000,user_id={uid},group_id={uid},allow_other".encode()
        if _libc.mount(b"hung", os.fsencode(directory), b"fuse", 0, options):
            pytest.skip(f"nothing can be mounted here: {os.strerror(ctypes.get_errno())}")
        try:
            yield
        finally:
            _libc.umount2(os.fsencode(directory), _MNT_DETACH)
    finally:
        os.close(device)
