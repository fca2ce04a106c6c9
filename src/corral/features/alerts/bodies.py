"""The JSON bodies and query strings of requests about alerts."""

from dataclasses import dataclass
from typing import Annotated

from corral.core.model.field import Field
from corral.features.alerts.alert_access import LONGEST_SILENCE_S, MOST_REASON_CHARACTERS
from corral.features.alerts.alert_match import MOST_CHARACTERS


@dataclass(frozen=True, slots=True)
class AlertsQuery:
    """Whether to list the last resolved alerts besides the active ones."""

    history: bool = False


@dataclass(frozen=True, slots=True)
class NewSilence:
    """A silence: the alerts not to send, for this many seconds, and why.

    `match` is the name of a rule or the id of an alert, or parts such as "rule=idle-*,user=alice,node=gpu-07": all of
    them must fit, and * is any characters.
    """

    match: Annotated[str, Field(shortest=1, longest=MOST_CHARACTERS)]
    duration_s: Annotated[float, Field(least=1, most=LONGEST_SILENCE_S)]
    reason: Annotated[str, Field(longest=MOST_REASON_CHARACTERS)] = ""
