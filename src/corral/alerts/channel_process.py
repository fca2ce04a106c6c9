"""Has a process of its own send a message, or try URLs, and gives up on it at its deadline.

A plugin that hangs, that reads an answer without end or that keeps what it should not is killed with its process. The
URL goes through a pipe: it is in no process list, and neither in the environment nor in a file.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from corral.core.model.alerts.channel import Channel
from corral.core.model.errors import BackendFailed, CorralError, Refused
from corral.untrusted import Unread, guarded

TRY_S = 30.0
"""One try takes no longer."""

_NICENESS = 10
_OF_SITE = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True)
class Guard:
    """What a channel of a plain user is held to.

    Attributes:
        networks: addresses that it may reach besides public ones, such as "10.1.0.0/16".
        uid, gid: whose rights it has, where the server is root's.
    """

    uid: int
    gid: int
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message as it is sent: a title and a text for people, and fields for programs (JSON webhooks).

    Attributes:
        type: apprise's: info, success, warning or failure.
        group: messages of one group may be told to people as one; "" is told alone.
    """

    id: str
    title: str
    body: str
    type: str
    fields: Mapping[str, Any]
    group: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a try; `why` is a sentence without the URL, None when it was delivered."""

    delivered: bool
    why: str | None = None


class ChannelProcess:
    """One process after the other, for one thread. `stop` may be called from any, and ends the one that runs."""

    def __init__(self, *, timeout_s: float = TRY_S) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def send(self, url: str, message: Outgoing, guard: Guard | None = None) -> Outcome:
        """One try. Never raises."""
        try:
            answer = self._ask({"send": _order(url, message, guard)}, guard is None)
            return Outcome(bool(answer["delivered"]), answer["why"])
        except subprocess.TimeoutExpired:
            return Outcome(False, f"the receiver did not take it within {self._timeout_s:g} s")
        except (OSError, ValueError, KeyError, TypeError) as error:
            return Outcome(False, f"the process that sends has failed ({type(error).__name__})")

    def stop(self) -> None:
        """End the process that runs, and start no more."""
        with self._lock:
            self._stopped = True
            if self._child is not None:
                self._child.kill()

    def ask_to_check(self, urls: Sequence[str]) -> list[str | None]:
        """What is wrong with each URL, None where apprise understands it. Raises BackendFailed."""
        try:
            problems = self._ask({"check": list(urls)}, True)["problems"]
        except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
            raise BackendFailed(f"the URLs of channels cannot be checked: {type(error).__name__}") from None
        return list(problems)

    def _ask(self, order: Mapping[str, Any], of_site: bool) -> dict[str, Any]:
        with self._lock:
            if self._stopped:
                raise OSError("stopped")
            child = self._child = subprocess.Popen(
                [sys.executable, "-I", "-m", "corral.alerts.channel_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=_environment(of_site),
                start_new_session=True,
            )
        try:
            os.setpriority(os.PRIO_PROCESS, child.pid, _NICENESS)
            said, _ = child.communicate(json.dumps(order).encode(), timeout=self._timeout_s)
        finally:
            child.kill()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            child.wait()
            with self._lock:
                self._child = None
        answer: dict[str, Any] | Unread = guarded("what the process of a channel said", partial(json.loads, said))
        if isinstance(answer, Unread):
            raise ValueError(f"what the process said {answer}")
        return answer


def _order(url: str, message: Outgoing, guard: Guard | None) -> dict[str, Any]:
    """What the process is to send, as JSON has it."""
    return {
        "url": url,
        "title": message.title,
        "body": message.body,
        "type": message.type,
        "fields": dict(message.fields),
        "guard": None if guard is None else {"uid": guard.uid, "gid": guard.gid, "networks": list(guard.networks)},
    }


def check_channels(channels: Sequence[Channel], places: Mapping[str, str]) -> None:
    """Have apprise read the URLs of the site's channels; none costs nothing.

    `places` says where the setting `channels` stands. Raises Refused, which names the channel and never its URL.
    """
    if not channels:
        return
    problems = ChannelProcess().ask_to_check([channel.url for channel in channels])
    wrong = [
        f"{places.get('channels', 'settings')}: channels.{channel.name}: {problem}"
        for channel, problem in zip(channels, problems, strict=True)
        if problem is not None
    ]
    if wrong:
        raise Refused("; ".join(wrong), field="channels")


def checking_channels(channels: Sequence[Channel], places: Mapping[str, str]) -> Future[None]:
    """`check_channels` on a thread of its own, so that a server starts meanwhile."""
    checked: Future[None] = Future()

    def check() -> None:
        try:
            check_channels(channels, places)
        except CorralError as error:
            checked.set_exception(error)
        else:
            checked.set_result(None)

    if channels:
        threading.Thread(target=check, name="channel-check", daemon=True).start()
    else:
        checked.set_result(None)
    return checked


def _environment(of_site: bool) -> dict[str, str]:
    """Nothing of the server's but the site's proxies and certificates, and for users not these either.

    Through a proxy, which may reach what this machine must not, the guard could not see where a message goes.
    """
    kept = {"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": "/nonexistent", "NETRC": os.devnull}
    if of_site:
        names = {*_OF_SITE, *(name.lower() for name in _OF_SITE)}
        kept |= {name: value for name, value in os.environ.items() if name in names}
    return kept
