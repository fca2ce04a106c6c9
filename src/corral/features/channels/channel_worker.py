"""The process that sends one message or checks URLs, with an order on its input.

Run as `python -m corral.features.channels.channel_worker`.

Only this process loads apprise, never the server. Order and answer are JSON in one of these forms:

    {"send": {url, title, body, type, fields, guard}}    {"delivered": true, "why": null}
    {"check": [url, ...]}                                {"problems": [null, "why it is refused", ...]}

`guard` is null for a channel of the site, and {networks, uid, gid} for a user's: the process then gives up all rights
first. Answers contain only sentences of Corral, because apprise's may contain parts of a URL.
"""

import json
import logging
import os
import re
import resource
import signal
import sys
from ipaddress import ip_network
from typing import Any

from corral.as_login import become, take_login_standing
from corral.core.model.errors import nearest
from corral.features.channels.connection_guard import REFUSED, close_to_all_but

LONGEST_S = 45
"""The process ends after this time, even if the server that started it has died."""

_MEMORY_BYTES = 1024**3
_MOST_NOTED = 200

_STATUS = re.compile(r"\berror[=:] ?(\d{3})\b")
_CAUSES = (
    (REFUSED, ("its address is not allowed: channels of users may reach only public addresses, and networks in "
              "user_channel_networks")),
    ("certificate verify failed", "the certificate of the receiver is not trusted"),
    ("[SSL", "no encrypted connection could be made"),
    ("Connection refused", "the receiver refused the connection"),
    ("Name or service not known", "the name of the receiver is not known"),
    ("No address associated", "the name of the receiver is not known"),
    ("Temporary failure in name resolution", "the name of the receiver cannot be looked up"),
    ("timed out", "the receiver did not answer in time"),
    ("Connection aborted", "the receiver closed the connection without an answer"),
    ("Connection reset", "the receiver closed the connection without an answer"),
    ("closed connection", "the receiver closed the connection without an answer"),
    ("closed unexpectedly", "the receiver closed the connection without an answer"),
    ("No route to host", "the receiver's network cannot be reached"),
    ("Network is unreachable", "the receiver's network cannot be reached"),
    ("uthentication", "the receiver did not accept the name or the password"),
    ("Proxy", "the proxy did not pass it on"),
)  # fmt: skip
"""Texts in the log of apprise, and their meanings; the first match counts."""


class _Notes(logging.Handler):
    """Collects the log of apprise, to find the cause of a failure."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.lines) < _MOST_NOTED:
            self.lines.append(record.getMessage())


def cause_in(lines: list[str]) -> str:
    """Return why a message was not delivered, from the log of apprise and a mail server, without quoting it."""
    text = "\n".join(lines)
    for words, meaning in _CAUSES:
        if words in text:
            return meaning
    status = _STATUS.search(text)
    if status is not None:
        return f"the receiver answered {status[1]}"
    return "it was not accepted"


def _send(order: dict[str, Any]) -> dict[str, Any]:
    notes = _noting()
    from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType

    asset = AppriseAsset(app_id="Corral", app_desc="Corral", app_url="", async_mode=False, secure_logging=True)
    kinds = _kinds()  # this loads every plugin, which a guarded process could not do
    if order["guard"] is not None:
        _give_up_rights(order["guard"])
    if order["url"].partition("://")[0].lower() not in kinds:
        return {"delivered": False, "why": "apprise does not know its kind"}
    plugin = Apprise.instantiate(order["url"], asset=asset)
    if plugin is None:
        return {"delivered": False, "why": "apprise does not understand its URL"}
    if hasattr(plugin, "payload_extras"):
        plugin.payload_extras.update(order["fields"])
    sender = Apprise(asset=asset)
    sender.add(plugin)
    done = sender.notify(
        body=order["body"],
        title=order["title"],
        notify_type=NotifyType(order["type"]),
        body_format=NotifyFormat.TEXT,
    )
    return {"delivered": bool(done), "why": None if done else cause_in(notes.lines)}


def _check(urls: list[str]) -> dict[str, Any]:
    _noting()
    kinds = _kinds()
    return {"problems": [_problem(url, kinds) for url in urls]}


def _problem(url: str, kinds: dict[str, Any]) -> str | None:
    from apprise import Apprise

    kind = url.partition("://")[0].lower()
    if kind not in kinds:
        return f"apprise does not know the kind {kind!r:.40}; {nearest(kind, kinds)}"
    if Apprise.instantiate(url) is not None:
        return None
    plugin = kinds[kind]
    if not plugin.enabled:
        return f"the kind {kind} needs a Python package that is not installed here"
    forms = [str(form).replace("{schema}", kind) for form in plugin.templates[:3]]
    return f"this URL is incomplete for the kind {kind}; write it as {' or '.join(forms)}"


def _kinds() -> dict[str, Any]:
    from apprise.manager_plugins import NotificationManager

    known: Any = NotificationManager()  # type: ignore[no-untyped-call]
    return {kind: known[kind] for kind in known.schemas()}


def _noting() -> _Notes:
    notes = _Notes()
    for name in ("apprise", "urllib3"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(notes)
    return notes


def _give_up_rights(guard: dict[str, Any]) -> None:
    """Become the user if this process is root, and block all that a plain user's channel may not reach."""
    if os.geteuid() == 0:
        become(guard["uid"], guard["gid"], [], os.getpriority(os.PRIO_PROCESS, 0))
    close_to_all_but([ip_network(network) for network in guard["networks"]])


def main() -> None:
    """Answer one order."""
    signal.alarm(LONGEST_S)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    order = json.load(sys.stdin)
    take_login_standing(os.getpriority(os.PRIO_PROCESS, 0))
    answer = _send(order["send"]) if "send" in order else _check(order["check"])
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
