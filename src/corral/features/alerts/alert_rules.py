"""Builds the alert rules of a site: Corral's own rules, those of its thresholds, and the site's changes and
additions.
"""

from dataclasses import replace
from typing import Any

from corral.config import Settings
from corral.config.alert_condition import clearing_at
from corral.config.alert_plans import AlertPlan
from corral.core.model.errors import Refused, nearest
from corral.core.model.severity import Severity
from corral.features.alerts.alert_rule import AlertRule
from corral.features.alerts.built_in import BUILT_IN, threshold_rules


def alert_rules(settings: Settings) -> tuple[AlertRule, ...]:
    """Return all rules, by name.

    Raises Refused, with file and line, for a rule without a condition, a `clear` that can never be reached, and an
    unknown channel.
    """
    channels = tuple(channel.name for channel in settings.channels)
    rules = {rule.name: rule for rule in (*threshold_rules(dict(settings.alert_thresholds)), *BUILT_IN)}
    for plan in settings.alerts:
        try:
            rules[plan.name] = _rule_of(plan, rules, channels)
        except Refused as refused:
            place = settings.places.get(f"alert {plan.name}")
            raise Refused(f"{place + ': ' if place else ''}alert {plan.name}: {refused}", field="alerts") from None
    return tuple(_told(rules[name], channels) for name in sorted(rules))


def _rule_of(plan: AlertPlan, rules: dict[str, AlertRule], channels: tuple[str, ...]) -> AlertRule:
    before = rules.get(plan.name)
    if plan.when is None and before is None:
        raise Refused(f"it has no condition (when), and Corral has no rule of that name; {nearest(plan.name, rules)}")
    if before is None or plan.when is not None:
        assert plan.when is not None
        # A rule with another condition is a new rule; it keeps only the advice of Corral's own.
        before = AlertRule(plan.name, plan.when, advice="" if before is None else before.advice)
    said: dict[str, Any] = {
        name: value for name in ("for_s", "clear", "severity", "to") if (value := getattr(plan, name)) is not None
    }
    rule = replace(before, **said)
    for name in rule.to or ():
        if name not in channels:
            hint = nearest(name, channels) or "`channels` names none"
            raise Refused(f"to: there is no channel {name!r:.60}; {hint}")
    if rule.clear is not None:
        clearing_at(rule.when, rule.clear)
    return rule


def _told(rule: AlertRule, channels: tuple[str, ...]) -> AlertRule:
    """Return the rule with its channels. The default is all channels, and none for the severity INFO."""
    if rule.to is not None:
        return rule
    return replace(rule, to=() if rule.severity is Severity.INFO else channels)
