"""Corral's own alert rules, and the rules that follow from a site's thresholds."""

from collections.abc import Mapping

from corral.config.alert_condition import parse_when
from corral.core.model.severity import Severity
from corral.features.alerts.alert_rule import AlertRule

_HOT_C = 85
_MINUTE_S = 60.0
_HOUR_S = 3600.0


def _rule(
    name: str,
    when: str,
    advice: str,
    *,
    for_s: float = 0.0,
    clear: float | None = None,
    severity: Severity = Severity.WARNING,
    keep_s: float = 0.0,
) -> AlertRule:
    return AlertRule(name, parse_when(when), for_s, clear, severity, None, keep_s, advice)


def threshold_rules(thresholds: Mapping[str, float]) -> tuple[AlertRule, ...]:
    """Return the rules of `alert_thresholds`: temperature (Celsius), utilization and memory (percent), power (watts).

    Full use of a device is the goal, so its alert has the severity INFO.
    """
    degrees = thresholds.get("temperature", _HOT_C)
    rules = [
        _rule(
            "temperature",
            f"temperature_c > {degrees:g}",
            "Check the fans and the air of the node; above max_temperature no job starts on it.",
            for_s=_MINUTE_S,
            clear=degrees - 5,
        )
    ]
    for name, series in (("utilization", "utilization_pct"), ("memory", "memory_used_pct")):
        if (most := thresholds.get(name)) is not None:
            about = "It is well used; nothing is wrong."
            when = f"{series} > {most:g}"
            rules.append(_rule(name, when, about, for_s=10 * _MINUTE_S, clear=max(0, most - 5), severity=Severity.INFO))
    if (watts := thresholds.get("power")) is not None:
        about = "`nvidia-smi -pl` sets its power limit."
        rules.append(_rule("power", f"power_w > {watts:g}", about, for_s=_MINUTE_S, clear=round(watts * 0.95, 1)))
    return tuple(rules)


BUILT_IN = (
    _rule(
        "xid",
        "new_xid > 0",
        "NVIDIA's list of Xid errors says what the number means; many are faults of a program.",
        keep_s=_HOUR_S,
    ),
    _rule(
        "ecc",
        "ecc_errors > 0",
        "Uncorrectable memory errors: results computed on it may be wrong, and no job starts on it until it is reset.",
        severity=Severity.CRITICAL,
    ),
    _rule(
        "device-unreadable",
        "unreadable == 1",
        "No job starts on it: it may have fallen off the bus, or its driver hangs. `corral status` shows the reason.",
        for_s=_MINUTE_S,
        severity=Severity.CRITICAL,
    ),
    _rule(
        "device-unhealthy",
        "unhealthy == 1",
        "Nothing starts on it until its fault is gone and it has proved itself. `corral health` shows why.",
    ),
    _rule(
        "throttled",
        "throttled == 1",
        "Heat or its power supply slows it down: jobs on it take longer.",
        for_s=5 * _MINUTE_S,
    ),
    _rule(
        "idle-allocation",
        "busiest_gpu_pct < 5 and others_waiting > 0",
        "Its GPUs are idle while other jobs wait: check whether it hangs or is done.",
        for_s=15 * _MINUTE_S,
    ),
    _rule(
        "queue-stuck",
        "since_start_s > 3600 and running_jobs == 0",
        "Jobs wait there, none runs, and none has started for an hour. `corral why ID` shows what they wait for.",
    ),
    _rule(
        "job-waiting",
        "waiting_s > 86400",
        "`corral why ID` shows what it waits for, and what would start now.",
        severity=Severity.INFO,
    ),
    _rule(
        "quota-nearly-used",
        "gpu_hours_used_pct >= 90",
        "Once it is used up, no more jobs start there in this period. `corral queues` shows quotas.",
        clear=85,
    ),
    _rule(
        "disk-low",
        "disk_free_pct < 5 or disk_free_mib < 1024",
        "If it is full, no job starts and output is lost: make room.",
        severity=Severity.CRITICAL,
    ),
    _rule(
        "starts-blocked",
        "starts_blocked == 1",
        "No job starts because a disk is full or cannot be written. `corral status` shows which disk, and what to do.",
        for_s=30.0,
        severity=Severity.CRITICAL,
    ),
    _rule(
        "history-stopped",
        "history_stopped == 1",
        "The history of the devices is not written; server.log says why. Jobs are not affected.",
        for_s=_MINUTE_S,
    ),
    _rule(
        "node-silent",
        "silent == 1",
        "No job starts there; running jobs go on. Check that its agent runs.",
        for_s=30.0,
    ),
    _rule(
        "node-gone",
        "gone == 1",
        "It has not answered for node_gone_after: its jobs are lost, or run again elsewhere.",
        severity=Severity.CRITICAL,
    ),
)
"""Rules that apply at every site unless the site defines a rule of the same name."""
