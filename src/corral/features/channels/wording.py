"""Formats alerts for sending: text for people, and fields for programs."""

import re
import time
from collections.abc import Sequence
from dataclasses import replace

from corral.core.model.printable import printable
from corral.core.model.severity import Severity
from corral.features.channels.channel_process import Outgoing
from corral.features.channels.message import AlertMessage, AlertState

MOST_CHARACTERS = 2000
_LONGEST_TITLE = 200

_TYPES = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.CRITICAL: "failure"}

_MENTION = re.compile(r"@(?=everyone|here|channel|all|room)", re.IGNORECASE)
_COMMAND = re.compile(r"<(?=[!@#/a-zA-Z])")


def outgoing(message: AlertMessage, *, since: float) -> Outgoing:
    """Return the message to send for an alert. `since` is its `since` by the wall clock, Unix seconds."""
    resolved = message.state is AlertState.RESOLVED
    word = "resolved" if resolved else message.severity.value
    moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(since))
    return Outgoing(
        id=f"{message.id}:{message.state.value}",
        title=harmless(f"[{word}] {message.rule}: {message.subject}")[:_LONGEST_TITLE],
        body=harmless(f"{message.sentence}\nsince {moment}, alert {message.id}"),
        type="success" if resolved else _TYPES[message.severity],
        fields={
            "id": message.id,
            "name": message.rule,
            "severity": message.severity.value,
            "state": message.state.value,
            "subject": message.subject,
            "measure": message.measure,
            "value": message.value,
            "since": since,
            "sentence": message.sentence,
            "labels": dict(message.labels),
        },
        group=message.group,
    )


def as_one(messages: Sequence[Outgoing]) -> Outgoing:
    """Return messages of one group combined into one, with a sentence for each."""
    first = messages[0]
    if len(messages) == 1:
        return first
    lines = "\n".join(f"- {harmless(str(message.fields['sentence']))}" for message in messages)
    title = f"{first.title} and {len(messages) - 1} more"
    return replace(first, title=title, body=lines[:MOST_CHARACTERS])


def in_name_of(cluster: str | None, message: Outgoing) -> Outgoing:
    """Return the message with the name of the cluster, if there is one: people may receive messages of several
    clusters.
    """
    if cluster is None:
        return message
    title = f"{harmless(cluster)}: {message.title}"[:_LONGEST_TITLE]
    return replace(message, title=title, fields={**message.fields, "cluster": cluster})


def harmless(text: str) -> str:
    """Return text that mentions nobody and hides no link, whatever a user has named a job. Line breaks are kept.

    Chat programs interpret `@channel`, `<!here>` and `[words](address)` in messages.
    """
    lines = [printable(line) for line in text[:MOST_CHARACTERS].split("\n")]
    return _COMMAND.sub("< ", _MENTION.sub("@ ", "\n".join(lines))).replace("](", "] (")
