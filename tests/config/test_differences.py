"""What differs between two readings of a file of settings, in its own words."""

from dataclasses import fields
from pathlib import Path

import pytest

from corral.config import Settings, load_settings
from corral.config.differences import Difference, differences

ALL = frozenset(field.name for field in fields(Settings))


def between(tmp_path: Path, before: str, after: str) -> tuple[Difference, ...]:
    paths = [tmp_path / "before.yaml", tmp_path / "after.yaml"]
    for path, text in zip(paths, (before, after), strict=True):
        path.write_text(text)
    return differences(load_settings(paths[0]), load_settings(paths[1]), ALL)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("kill_grace: 10s", "", []),
        ("kill_grace: 90s", "kill_grace: 2m", [("kill_grace", "90s", "2m")]),
        ("stale_after: 1d", "stale_after: 90061s", [("stale_after", "1d", "90061s")]),
        ("log_max: 1G", "log_max: 200M", [("log_max", "1G", "200M")]),
        ("lend_stale: true", "", [("lend_stale", "true", "false")]),
        ("priority_range: [0, 9]", "", [("priority_range", "0, 9", None)]),
        ("min_compute_capability: 8.0", "", [("min_compute_capability", "8.0", None)]),
        ("sharing: mps", "sharing: {0: timeslice}", [("sharing", "*: mps", "0: timeslice")]),
        ("labels: {zone: a}", "", [("labels", "zone: a", "none")]),
        (
            "policies: {max_gpus_per_user: 1.5, max_job_duration_hours: 48}",
            "policies: {max_job_duration_hours: 24}",
            [("policies.max_gpus_per_user", "1.5", None), ("policies.max_job_duration_hours", "48", "24")],
        ),
        (
            "queues:\n- {name: night, weight: 2, quota: {gpus: 4, borrow: 2, memory: 80G}}",
            "queues:\n- {name: night, quota: {gpus: 3.5, borrow: 2, memory: 80G}}\n- {name: day}",
            [
                ("queues.night.weight", "2", None),
                ("queues.night.quota.gpus", "4", "3.5"),
                ("queues.day", None, "defined"),
            ],
        ),
        (
            "user_quota: {gpus: 2}",
            "user_quota: {gpu_hours: 8, period: 7d}",
            [
                ("user_quota.gpus", "2", None),
                ("user_quota.gpu_hours", None, "8"),
                ("user_quota.period", None, "7d"),
            ],
        ),
        (
            "pools:\n- {name: lab, gpus: [0, 1], users: [alice]}",
            "pools:\n- {name: lab, gpus: [0], users: [alice], lends: true}",
            [("pools.lab.gpus", "0, 1", "0"), ("pools.lab.lends", None, "true")],
        ),
        ("", "hosts: [a, {name: b, address: 10.0.0.2}]", [("hosts", "none", "a, {name: b, address: 10.0.0.2}")]),
        (
            "projects:\n- {name: nlp, users: [bob]}",
            "",
            [
                ("projects.nlp", "defined", None),
                ("projects.nlp.users", "bob", None),
            ],
        ),
    ],
)
def test_differences_are_told_as_the_file_has_them(
    tmp_path: Path, before: str, after: str, found: list[tuple[str, str | None, str | None]]
) -> None:
    assert between(tmp_path, before, after) == tuple(Difference(*one) for one in found)


def test_where_a_file_moves_its_lines_nothing_differs(tmp_path: Path) -> None:
    moved = "# new\nqueues:\n- {name: a}\nkill_grace: 5s\n"
    assert between(tmp_path, "kill_grace: 5s\nqueues:\n- {name: a}\n", moved) == ()
