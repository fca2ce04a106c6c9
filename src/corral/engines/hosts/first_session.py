"""The first session of a connection to a host: it makes the connection, claims the agent, and ends with the connection.

Nothing is called in it. Further sessions share its connection.
"""

import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, NamedTuple

from corral.core.model.errors import CorralError, NodeUnreachable
from corral.engines.hosts.host_session import HostSession, await_agent, open_session
from corral.engines.hosts.ssh import (
    CONNECT_S,
    FIND_AGENT,
    SshFailed,
    SshFailure,
    SshRoute,
    failure_of,
    fingerprint_in,
)
from corral.engines.hosts.wake import Wake
from corral.host.node.agent_answers import read_answer
from corral.host.node.protocol import BadFrame, Closed, receive_frame, send
from corral.host.node.remote import MAX_GREETING_BYTES, check_greeting

ATTEMPT_S = 3 * CONNECT_S
"""The time for one attempt, with jump hosts and a slow login shell."""

_MESSAGES_BYTES = 16 * 1024
_END_S = 1.0


class FirstSession(NamedTuple):
    """A session whose agent has greeted, and the address at which SSH has reached it; "" if that is unknown."""

    session: HostSession
    address: str
    greeting: Mapping[str, Any]


def connect(
    route: SshRoute,
    claim: Mapping[str, Any],
    *,
    accept_new: bool,
    begun: Callable[[HostSession], None] = lambda session: None,
) -> FirstSession:
    """Connect to a host. `begun` is called with the session, which may be ended meanwhile. Raises SshFailed."""
    words = route.first_session(FIND_AGENT, accept_new=accept_new)
    try:
        route.control.unlink(missing_ok=True)
        session = open_session(words, stderr=subprocess.PIPE)
    except (OSError, NodeUnreachable) as error:
        raise SshFailed(SshFailure(str(error), by_person=True)) from None
    begun(session)
    return greeted(session, route.destination, claim)


def greeted(session: HostSession, destination: str, claim: Mapping[str, Any]) -> FirstSession:
    """Wait for the agent, claim it and read its greeting. Raises SshFailed, and closes the session then.

    The agent may be hostile: whatever it answers is a reason, and no more.
    """
    until = time.monotonic() + ATTEMPT_S
    with ExitStack() as stack:
        stack.push(session)
        try:
            address = await_agent(session, until)
            if address is None:
                status = session.process.wait(CONNECT_S)
                raise SshFailed(failure_of(destination, status, _messages(session)))
            send(session, claim, until)
            greeting = read_answer(receive_frame(session, until, MAX_GREETING_BYTES))
            check_greeting(greeting, "the agent there")
        except SshFailed:
            raise
        except (TimeoutError, subprocess.TimeoutExpired):
            raise SshFailed(failure_of(destination, None, "")) from None
        except (OSError, Closed, BadFrame, CorralError) as error:
            raise SshFailed(SshFailure(f"{destination}: {error}", by_person=True)) from None
        stack.pop_all()
    return FirstSession(session, address, greeting)


def explained(route: SshRoute, failure: SshFailure, typed: Callable[..., str]) -> SshFailure:
    """Add what helps: the fingerprint of an unknown host key, by a second connection, and what to type.

    `typed` returns the command that adds the host, with more flags.
    """
    if failure.not_installed and failure.by_person:
        return replace(failure, reason=f"{failure.reason}; to install it: {typed('--install')}")
    if not failure.unknown_key:
        return failure
    words = route.single_session("true", verbose=True)
    try:
        said = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=ATTEMPT_S, check=False)
        key = fingerprint_in(said.stderr.decode(errors="replace"))
    except (OSError, subprocess.TimeoutExpired):
        key = None
    shown = f" ({key})" if key else ""
    reason = (
        f"{failure.reason}{shown}; compare it there (`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`), "
        f"then accept it: {typed('--accept-new')}"
    )
    return replace(failure, reason=reason)


def await_end(session: HostSession, destination: str, wake: Wake, goes_on: Callable[[], bool]) -> SshFailure | None:
    """Wait until the session ends, and close it. Return why it ended; None if, once woken, it is not to go on."""
    assert session.process.stderr is not None
    messages, errors = b"", session.process.stderr.fileno()
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    poll.register(errors, select.POLLIN)
    poll.register(session, select.POLLRDHUP)
    with session:
        ended = False
        while goes_on() and not ended:
            found = dict(poll.poll())
            if wake.fileno() in found:
                wake.clear()
            if errors in found:
                piece = os.read(errors, _MESSAGES_BYTES)
                messages = (messages + piece)[-_MESSAGES_BYTES:]
                ended = not piece
            ended = ended or session.fileno() in found
        if not ended:
            return None
        status = _status(session)
        # Its last words may have come with its end.
        os.set_blocking(errors, False)
        with suppress(OSError):
            messages += os.read(errors, _MESSAGES_BYTES)
    if status == 0:
        return SshFailure(f"the agent on {destination} has ended the connection")
    return failure_of(destination, status, messages.decode(errors="replace"))


def _messages(session: HostSession) -> str:
    """Return the first messages of a session that has ended."""
    assert session.process.stderr is not None
    return session.process.stderr.read(_MESSAGES_BYTES).decode(errors="replace")


def _status(session: HostSession) -> int | None:
    try:
        return session.process.wait(_END_S)
    except subprocess.TimeoutExpired:
        return None
