"""Which alerts a silence is about."""

import pytest

from corral.core.model.errors import Refused
from corral.core.model.severity import Severity
from corral.features.alerts.alert import Alert, AlertSilence
from corral.features.alerts.alert_match import check_match, matches, silenced

LABELS = (("node", "gpu-07"), ("uuid", "GPU-1"))
ALERT = Alert("5f0c27ab", "idle-night", Severity.INFO, "job 17", 1, 2, 3, "it is idle", LABELS, owner="alice")


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ("idle-night", True), ("idle-*", True), ("*", True), ("5f0c27ab", True), ("5f0c*", False), ("idle", False),
        ("node=gpu-07", True), ("node=gpu-*,severity=info", True), ("node=gpu-*,severity=warning", False),
        ("subject=job 17", True), (" rule = idle-night , node=gpu-07 ", True), ("user=alice", False),
    ],
)  # fmt: skip
def test_all_parts_of_a_match_must_fit(match: str, fits: bool) -> None:
    assert matches(match, ALERT) is fits


@pytest.mark.parametrize("match", ["", ",", "node=", "=gpu-07", "nodes=gpu-07", "a" * 501, "a," * 21 + "a"])
def test_what_says_nothing_is_refused(match: str) -> None:
    with pytest.raises(Refused):
        check_match(match)


def test_a_silence_is_over_at_its_end_and_a_users_is_about_their_jobs() -> None:
    silence = AlertSilence("s", "*", "root", 0, 100)
    assert [silenced(silence, ALERT, now) for now in (99.9, 100)] == [True, False]
    of_users = [AlertSilence("s", "*", "x", 0, 100, user=user) for user in ("alice", "bob")]
    assert [silenced(one, ALERT, 1) for one in of_users] == [True, False]
