"""Patterns that select the alerts of a silence: `temperature`, `node=gpu-07`, `rule=idle-*,user=alice`."""

from functools import lru_cache

from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.name_pattern import fits
from corral.features.alerts.alert import Alert, AlertSilence

LABELS = ("disk", "gpu", "job", "model", "name", "node", "project", "queue", "user", "uuid")
"""The labels that an alert may have. A match may name each of them."""

_OF_ALERTS = ("id", "rule", "severity", "subject")
KEYS = tuple(sorted((*_OF_ALERTS, *LABELS)))
MOST_CHARACTERS = 500
_MOST_PARTS = 20


def check_match(text: str) -> None:
    """Raise Refused for a match that cannot be parsed; the message lists the keys that a match may use."""
    _parts(text)


def matches(text: str, alert: Alert) -> bool:
    """Whether all parts of the match fit the alert. A part is KEY=PATTERN, an alert's id, or a pattern of a rule."""
    labels = dict(alert.labels)
    said = {"id": alert.id, "rule": alert.rule, "severity": alert.severity.value, "subject": alert.subject}
    for key, pattern in _parts(text):
        if key is None:
            if not (alert.id == pattern or fits(alert.rule, pattern)):
                return False
            continue
        value = said.get(key) or labels.get(key)
        if value is None or not fits(value, pattern):
            return False
    return True


def silenced(silence: AlertSilence, alert: Alert, now: float) -> bool:
    """Whether the silence keeps back messages of this alert at `now` (Unix seconds)."""
    if now >= silence.until or (silence.user is not None and alert.owner != silence.user):
        return False
    return matches(silence.match, alert)


@lru_cache(maxsize=1024)
def _parts(text: str) -> tuple[tuple[str | None, str], ...]:
    if len(text) > MOST_CHARACTERS:
        raise Refused(f"match: it has {len(text)} characters; at most {MOST_CHARACTERS} are allowed", field="match")
    found: list[tuple[str | None, str]] = []
    for part in text.split(","):
        key, equals, pattern = (word.strip() for word in part.partition("="))
        if not key or (equals and not pattern):
            raise Refused(
                f"match: {part!r:.60} is neither the name of a rule nor KEY=PATTERN; write the name of a rule, "
                f"or {'|'.join(KEYS)}=PATTERN",
                field="match",
            )
        if equals and key not in KEYS:
            raise Refused(f"match: alerts have no {key!r:.60}; {nearest(key, KEYS)}", field="match")
        found.append((key, pattern) if equals else (None, key))
    if len(found) > _MOST_PARTS:
        raise Refused(f"match: it has {len(found)} parts; at most {_MOST_PARTS} are allowed", field="match")
    return tuple(found)
