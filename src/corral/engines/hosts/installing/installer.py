"""Installs an agent on a host, upgrades it, and removes it.

The first installation runs over SSH with the access of the server's account. After it the server's own key reaches
the agent alone, so that upgrades and the removal go through the agent.
"""

import base64
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from corral.core.model.errors import BackendFailed, Conflict, CorralError, NodeUnreachable, Refused
from corral.core.model.printable import printable
from corral.core.ports.node import Installation
from corral.engines.hosts.installing.bundle import Bundle, WrongMachine, bundle_for
from corral.engines.hosts.installing.host_script import HostAnswer, answer_of, script_of

LOOK_S = 60.0
WORK_S = 600.0
"""The most seconds that a host may take to look, and to install: a slow line carries 3 MB in this time."""

_RESTART_S = 60.0
_LOOK_AGAIN_S = 0.1
_PIECE_BYTES = 512 * 1024

_MAKING_KEY = threading.Lock()
"""Several hosts are joined at once, and all with one key."""

Step = Callable[[str], None]


class ShellOutput(NamedTuple):
    """The two streams that a session of `ssh` wrote."""

    said: str
    complaints: str


class RunThere(Protocol):
    """Runs `sh -s` on a host."""

    def __call__(self, script: bytes, timeout_s: float) -> ShellOutput:
        """Return what it wrote, bounded. Raises NodeUnreachable if the host does not answer within the time."""
        ...


@dataclass(frozen=True, slots=True)
class InstallOrder:
    """The way to install an agent.

    Attributes:
        server: the tag of this server.
        options: further options of the agent, such as --claimed.
        settings: the text of the agent's settings.
        public_key: the server's own key, which then reaches the agent; None to leave the host's keys as they are.
        claim: the claim of this server as plain data, by which the agent is this server's from the start; None: the
            first server that connects is its server.
        node: the name of the host's node in this server: a host that this server has under another name is refused.
            None if any may be there.
    """

    server: str
    options: tuple[str, ...] = ()
    settings: str = ""
    public_key: str | None = None
    claim: Any = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Installed:
    """What was installed. `service` says what keeps the agent running, `remarks` what a person should know."""

    version: str
    service: str
    remarks: tuple[str, ...] = ()


def install(run: RunThere, order: InstallOrder, step: Step = lambda _: None) -> Installed:
    """Install this server's version, or what is missing of it, and start the agent; jobs there run on.

    Raises BackendFailed with the reason, and NodeUnreachable as `run` does.
    """
    step("looks at the host")
    found = _carried_out(run, LOOK_S, {"do": "look", "tag": order.server, "node": order.node})
    try:
        bundle = bundle_for(str(found.get("machine")), str(found.get("libc", "")))
    except WrongMachine as why:
        raise BackendFailed(str(why)) from None
    here = found.get("versions")
    sent = b"" if isinstance(here, list) and bundle.version in here else bundle.data
    step(f"sends {len(sent) / 1e6:.1f} MB" if sent else "starts the agent")
    done = _carried_out(
        run,
        WORK_S,
        {
            "do": "install",
            "tag": order.server,
            "node": order.node,
            "version": bundle.version,
            "sha256": bundle.sha256,
            "size": len(sent),
            "options": list(order.options),
            "settings": order.settings,
            "public_key": order.public_key,
            "claim": order.claim,
        },
        sent,
    )
    return Installed(bundle.version, printable(str(done.get("service"))), _sentences(done.get("remarks")))


def uninstall(run: RunThere, server: str, node: str | None = None, *, even_if_jobs_run: bool = False) -> str | None:
    """Remove the agent over SSH. Return the directory that stays there, with logs of jobs; None if there is none.

    With `node` a host stays as it is that this server has under another name.

    Raises BackendFailed with the reason, such as jobs that run, and NodeUnreachable as `run` does.
    """
    order = {"do": "remove", "tag": server, "node": node, "even_if_jobs_run": even_if_jobs_run}
    stays = _carried_out(run, WORK_S, order).get("stays")
    return printable(stays)[:1000] if isinstance(stays, str) else None


def upgrade(agent: Installation, settings: str, step: Step = lambda _: None) -> str:
    """Bring an agent that answers to this server's version; its jobs run on. Return the version.

    Raises BackendFailed with the reason, NodeUnreachable if the agent does not come back.
    """
    step("asks the agent for its version")
    try:
        state = agent.state()
    except Refused as refused:
        if refused.field != "call":
            raise
        why = "its agent is too old to be replaced in this way; give `hosts add` its name and --install"
        raise BackendFailed(why) from None
    try:
        bundle = bundle_for(state.machine, state.libc)
    except WrongMachine as why:
        raise BackendFailed(str(why)) from None
    _send(agent, bundle, step)
    step("starts the new agent")
    # Its answer may be lost as it ends.
    with suppress(NodeUnreachable):
        agent.switch(bundle.version, settings)
    _await_version(agent, bundle.version, state.instance)
    return bundle.version


def remove(agent: Installation, *, even_if_jobs_run: bool = False) -> None:
    """Have an agent end, and remove what was installed. Raises Conflict while jobs run there."""
    running = agent.state().launches
    if running and not even_if_jobs_run:
        raise Conflict(f"{len(running)} launches run there: {', '.join(running[:8])}; drain the node first")
    agent.remove(even_if_jobs_run=even_if_jobs_run)
    deadline = time.monotonic() + _RESTART_S
    while time.monotonic() < deadline:
        try:
            agent.state()
        except NodeUnreachable:
            return
        time.sleep(_LOOK_AGAIN_S)
    raise BackendFailed("the agent runs still; see its log there, agent.log in its home")


def own_key(private: Path) -> str:
    """Return the public part of the server's key, which is made if there is none. Raises BackendFailed."""
    public = private.with_name(f"{private.name}.pub")
    try:
        with _MAKING_KEY:
            private.parent.mkdir(mode=0o700, exist_ok=True)
            if not private.exists():
                words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "corral", "-f", str(private)]
                subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=LOOK_S)
        return public.read_text().strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise BackendFailed(f"the server's key {private} cannot be made: {error}") from None


def _send(agent: Installation, bundle: Bundle, step: Step) -> None:
    """Send a bundle in pieces, from where an earlier attempt ended."""
    offset = agent.offer(bundle.version, len(bundle.data), bundle.sha256)
    while offset < len(bundle.data):
        step(f"sends {(len(bundle.data) - offset) / 1e6:.1f} MB")
        piece = bundle.data[offset : offset + _PIECE_BYTES]
        offset = agent.write(bundle.version, offset, base64.b64encode(piece).decode())


def _await_version(agent: Installation, version: str, instance: str) -> None:
    deadline = time.monotonic() + _RESTART_S
    why = "it did not end"
    while time.monotonic() < deadline:
        try:
            state = agent.state()
        except CorralError as error:
            why = str(error)
        else:
            if state.version == version and state.instance != instance:
                return
            why = f"it still runs {state.version}"
        time.sleep(_LOOK_AGAIN_S)
    raise NodeUnreachable(f"the agent did not come back with the new version within {_RESTART_S:g} s: {why}")


def _carried_out(run: RunThere, timeout_s: float, order: dict[str, Any], payload: bytes = b"") -> Any:
    script = script_of(order, payload)
    ran = run(script.data, timeout_s)
    answer: HostAnswer = answer_of(script, ran.said, ran.complaints)
    if answer.failed is not None:
        raise BackendFailed(answer.failed)
    return answer.done


def _sentences(plain: Any) -> tuple[str, ...]:
    return tuple(printable(str(one))[:1000] for one in plain[:20]) if isinstance(plain, list) else ()
