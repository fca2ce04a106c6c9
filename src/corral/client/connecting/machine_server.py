"""Advice for users if no server answers, or an old one does. Only root may start the machine's own server."""

from __future__ import annotations

import os

from corral.client.connecting import server_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.core.model.home import Home

SYSTEMD = "/run/systemd/system"
"""This directory exists while systemd runs this machine (sd_booted(3))."""

UNITS = (
    "/etc/systemd/system/corral.service",
    "/usr/local/lib/systemd/system/corral.service",
    "/usr/lib/systemd/system/corral.service",
)
"""The places in which `make install` and packages put the unit of the machine's server."""


def how_to_start(home: Home) -> str:
    """The advice for a user who has found no server in `home`, as the rest of a sentence."""
    system = server_home.SYSTEM_HOME
    start = _machine_command("start")
    if start is None:
        return "start one with `corral up --detach`, or set CORRAL_HOME to the home of the one that runs"
    if str(home) == str(system):
        return f"{_asked_of_an_administrator('start it', start)}, or set CORRAL_HOME to a home of your own"
    asked = _asked_of_an_administrator(f"start this machine's, in {system}", start)
    return f"{asked}, or start one of your own with `corral up --detach`"


def how_to_restart(home: Home) -> str:
    """The advice for replacing the running server in `home` by the installed version; jobs run on."""
    restart = _machine_command("restart") if str(home) == str(server_home.SYSTEM_HOME) else None
    if restart is None:
        return "restart it (jobs run on): corral down; corral up --detach"
    return f"{_asked_of_an_administrator('restart it', restart)}; jobs run on"


def _asked_of_an_administrator(what: str, command: str) -> str:
    if os.geteuid() == 0:
        return f"{what}: `{command}`"
    return f"ask an administrator to {what} (`sudo {command}`)"


def _machine_command(verb: str) -> str | None:
    """The command by which root starts or restarts the machine's server; None if root has installed none."""
    if os.path.isdir(SYSTEMD) and any(map(os.path.exists, UNITS)):
        return f"systemctl {verb} corral"
    system = server_home.SYSTEM_HOME
    if not server_home.is_of_root(system):
        return None
    up = "corral up --detach"
    return f"env CORRAL_HOME={system} " + (up if verb == "start" else f"sh -c 'corral down; {up}'")
