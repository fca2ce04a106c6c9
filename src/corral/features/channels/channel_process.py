"""Runs a separate process that sends a message or checks URLs, and kills it at its deadline.

A plugin may hang, read an endless answer, or keep data that it should not: it is killed with its process. The URL is
passed through a pipe, so it is in no process list, environment or file.
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

from corral.config.channel_url import Channel
from corral.core.model.errors import BackendFailed, Refused
from corral.untrusted import Unread, guarded

TRY_S = 30.0
"""The time limit of one try."""

_NICENESS = 10
_OF_SITE = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True)
class Guard:
    """The restrictions of a plain user's channel.

    Attributes:
        networks: networks that it may reach besides public addresses, such as "10.1.0.0/16".
        uid, gid: the user and group of the process, if the server is root's.
    """

    uid: int
    gid: int
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message to send: a title and a text for people, and fields for programs (JSON webhooks).

    Attributes:
        type: the type for apprise: info, success, warning or failure.
        group: messages of one group may be combined into one; "" is never combined.
    """

    id: str
    title: str
    body: str
    type: str
    fields: Mapping[str, Any]
    group: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a try. `why` is a sentence without the URL, None if the message was delivered."""

    delivered: bool
    why: str | None = None


class ChannelProcess:
    """Runs one process after another, for one thread. `stop` may be called from any thread and ends the running
    process.
    """

    def __init__(self, *, timeout_s: float = TRY_S) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def send(self, url: str, message: Outgoing, guard: Guard | None = None) -> Outcome:
        """Try to send once. Never raises."""
        try:
            answer = self._ask({"send": _order(url, message, guard)}, guard is None)
            return Outcome(bool(answer["delivered"]), answer["why"])
        except subprocess.TimeoutExpired:
            return Outcome(False, f"the receiver did not accept the message within {self._timeout_s:g} s")
        except (OSError, ValueError, KeyError, TypeError) as error:
            return Outcome(False, f"the process that sends has failed ({type(error).__name__})")

    def stop(self) -> None:
        """End the running process, and start no more."""
        with self._lock:
            self._stopped = True
            if self._child is not None:
                self._child.kill()

    def ask_to_check(self, urls: Sequence[str]) -> list[str | None]:
        """Return the problem of each URL, None if apprise accepts it. Raises BackendFailed."""
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
                [sys.executable, "-I", "-m", "corral.features.channels.channel_worker"],
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
    """Return the order for the process, as plain data for JSON."""
    return {
        "url": url,
        "title": message.title,
        "body": message.body,
        "type": message.type,
        "fields": dict(message.fields),
        "guard": None if guard is None else {"uid": guard.uid, "gid": guard.gid, "networks": list(guard.networks)},
    }


def check_channels(channels: Sequence[Channel], places: Mapping[str, str]) -> None:
    """Check the URLs of the site's channels with apprise. Without channels no process runs.

    `places` has the file and line of the setting `channels`. Raises Refused, which names the channel and never its URL.
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
    """Run `check_channels` on a thread of its own, so that the server starts meanwhile."""
    checked: Future[None] = Future()

    def check() -> None:
        try:
            check_channels(channels, places)
        except BaseException as error:
            checked.set_exception(error)
        else:
            checked.set_result(None)

    if channels:
        threading.Thread(target=check, name="channel-check", daemon=True).start()
    else:
        checked.set_result(None)
    return checked


def _environment(of_site: bool) -> dict[str, str]:
    """Return the environment of the process: the site's proxies and certificates for channels of the site, neither for
    users'.

    A proxy may reach addresses that this machine must not, and behind it the guard could not check the destination.
    """
    kept = {"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": "/nonexistent", "NETRC": os.devnull}
    if of_site:
        names = {*_OF_SITE, *(name.lower() for name in _OF_SITE)}
        kept |= {name: value for name, value in os.environ.items() if name in names}
    return kept
