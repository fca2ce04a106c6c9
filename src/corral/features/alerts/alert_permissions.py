"""The permissions to acknowledge and silence alerts."""

from corral.core.access.caller import Caller
from corral.core.access.permissions import explain_scope
from corral.core.model.errors import Forbidden
from corral.features.alerts.alert import Alert, AlertSilence


def may_acknowledge(caller: Caller, alert: Alert) -> None:
    """Raise Forbidden unless the caller is an administrator, or the alert is about a job of theirs."""
    if not caller.admin and caller.user != alert.owner:
        explain_scope(caller)
        whose = "an administrator" if alert.owner is None else f"{alert.owner} or an administrator"
        raise Forbidden(f"alert {alert.id} is about {alert.subject}; only {whose} may acknowledge it")


def silence_user(caller: Caller) -> str | None:
    """The user to whose jobs a silence of this caller is limited; None means all alerts, for administrators."""
    return None if caller.admin else caller.user


def may_end_silence(caller: Caller, silence: AlertSilence) -> None:
    """Raise Forbidden unless the silence is the caller's own, or the caller is an administrator."""
    if not caller.admin and caller.user != silence.by:
        explain_scope(caller)
        raise Forbidden(f"silence {silence.id} is {silence.by}'s; only {silence.by} or an administrator may end it")
