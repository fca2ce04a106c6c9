"""Checks of settings that must agree with each other."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from corral.config.mistakes import Collecting
from corral.core.model.errors import Refused

if TYPE_CHECKING:
    from corral.config.settings import Settings


def check_agreement(path: Path, settings: "Settings", lines: Mapping[str, str]) -> None:
    """Raise Refused, with file and line, for settings that contradict each other. `lines` has "line 7" by key."""
    wrong = Collecting()
    for check in (_nodes_agree, _samples_agree, _user_quota_agrees, _priorities_agree, _backoff_agrees):
        with wrong.at():
            check(path, settings, lines)
    wrong.tell()


def _nodes_agree(path: Path, settings: "Settings", lines: Mapping[str, str]) -> None:
    if settings.node_gone_after_s < 2 * settings.node_silent_after_s:
        where = lines.get("node_gone_after") or lines["node_silent_after"]
        raise Refused(
            f"{path}, {where}: node_gone_after ({settings.node_gone_after_s:g}s) must be at least twice "
            f"node_silent_after ({settings.node_silent_after_s:g}s)",
            field="node_gone_after",
        )


def _samples_agree(path: Path, settings: "Settings", lines: Mapping[str, str]) -> None:
    if settings.stale_sample_s < 2 * settings.sample_interval_s:
        where = lines.get("stale_sample") or lines["sample_interval"]
        raise Refused(
            f"{path}, {where}: stale_sample ({settings.stale_sample_s:g}s) must be at least twice sample_interval "
            f"({settings.sample_interval_s:g}s), or devices count as unreadable between two samples",
            field="stale_sample",
        )


def _user_quota_agrees(path: Path, settings: "Settings", lines: Mapping[str, str]) -> None:
    if settings.max_milli_per_user is not None and settings.user_quota.share_milli is not None:
        where = settings.places["user_quota"].removeprefix(f"{path}, ")
        raise Refused(
            f"{path}, {where}: user_quota.gpus is already set as policies.max_gpus_per_user; remove one of the two",
            field="user_quota",
        )


def _priorities_agree(path: Path, settings: "Settings", lines: Mapping[str, str]) -> None:
    least, most = settings.priorities_of_users
    if not least <= settings.default_priority <= most:
        where = lines.get("priority_range") or lines["default_priority"]
        raise Refused(
            f"{path}, {where}: default_priority ({settings.default_priority}) is outside priority_range "
            f"({least} to {most}); change one of the two",
            field="priority_range",
        )


def _backoff_agrees(path: Path, settings: "Settings", lines: Mapping[str, str]) -> None:
    if settings.retry_backoff_max_s < settings.retry_backoff_s:
        where = lines.get("retry_backoff_max") or lines["retry_backoff"]
        raise Refused(
            f"{path}, {where}: retry_backoff_max ({settings.retry_backoff_max_s:g}s) is less than retry_backoff "
            f"({settings.retry_backoff_s:g}s); raise it, or lower retry_backoff",
            field="retry_backoff_max",
        )
