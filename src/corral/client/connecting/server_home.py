"""Finds the home of the server if the user names none: the user's own if its server answers, else the machine's."""

from __future__ import annotations

import os
import socket
import stat

from corral.core.model.errors import Refused
from corral.core.model.home import Home, find_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SYSTEM_HOME: Path | str = "/var/lib/corral"
"""The home of a server for the whole machine (deploy/corral.service)."""

_found: dict[Home, Home] = {}
"""The home found for each user's own home. A program keeps the server that it found first."""


def find_server_home(environ: Mapping[str, str]) -> Home:
    """The home that `$CORRAL_HOME` names, else ~/.corral if a server answers there, else SYSTEM_HOME if one does.

    SYSTEM_HOME counts only if nobody but root can have put its socket there. If no server answers, it is ~/.corral.
    Raises Refused like `find_home`.
    """
    try:
        own = own_home(environ)
    except Refused:
        if _answers_for_all(system := Home(SYSTEM_HOME)):
            return system
        raise
    if environ.get("CORRAL_HOME"):
        return own
    known = _found.get(own)
    if known is not None:
        return known
    if _answers(own):
        return _found.setdefault(own, own)
    if _answers_for_all(system := Home(SYSTEM_HOME)):
        return _found.setdefault(own, system)
    return own


def own_home(environ: Mapping[str, str] = os.environ) -> Home:
    """The home that `$CORRAL_HOME` names, else ~/.corral, whether a server answers there or not."""
    try:
        here = os.getcwd()
    except FileNotFoundError:
        here = "/"  # only a relative home needs the directory, and without a directory there is no relative home
    return find_home(environ, here)


def is_of_root(path: Path | str) -> bool:
    """Whether the path is a directory to which only root can have written."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _answers_for_all(home: Home) -> bool:
    """Whether a server answers in a directory where only root can have put its socket."""
    return is_of_root(str(home)) and _answers(home)


def _answers(home: Home) -> bool:
    """Whether a process listens on the home's socket and accepts this user. A dead server's socket does not count."""
    try:
        path = home.socket_path
    except Refused:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except BlockingIOError:
            return True  # the server lives, but its queue of connections is full
        except OSError:
            return False
    return True
