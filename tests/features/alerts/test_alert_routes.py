"""Alerts and silences over HTTP."""

import os
import pwd
from typing import Any

import pytest

from corral.core.model.severity import Severity
from corral.core.ports.ledger import Decided
from corral.features.alerts import alert_access
from corral.features.alerts.alert import Alert
from corral.features.alerts.facts import AlertFired, AlertResolved
from tests.api.world import Served

NOBODY = pwd.getpwuid(65534).pw_name
HOSTILE = "\x1b[31m<script>"


def alert(alert_id: str, *, severity: Severity = Severity.WARNING, owner: str | None = None, **more: Any) -> Alert:
    labels = (("gpu", "3"), ("node", "gpu-07"))
    return Alert(alert_id, f"rule-{alert_id}", severity, f"device {alert_id}", 10, 20, 91, "it is hot", labels,
                 owner=owner, **more)  # fmt: skip


def fire(served: Served, *alerts: Alert) -> None:
    facts = tuple(
        (AlertFired if one.fires else AlertResolved)(one, by="corral:alerts", at=one.fired_at) for one in alerts
    )
    served.world.ledger.commit(lambda _: Decided(facts, None)).result()


def ids(served: Served, **query: Any) -> list[str]:
    path = "/alerts" + ("?history=true" if query else "")
    return [row["id"] for row in served.call("GET", path).data["alerts"]]


def test_what_fires_is_listed_the_worst_first_and_what_is_over_if_asked_for(served: Served) -> None:
    over = alert("c", severity=Severity.CRITICAL, resolved_at=30.0, resolved_by="its condition no longer holds")
    fire(served, alert("a"), alert("b", severity=Severity.CRITICAL), over)
    assert ids(served) == ["b", "a"]
    assert ids(served, history=True) == ["b", "a", "c"]
    answer = served.call("GET", "/alerts").data
    assert answer["left_out"] == {"hot": 3}
    row = answer["alerts"][1]
    assert (row["state"], row["severity"], row["labels"]["node"], row["silenced"]) == (
        "firing",
        "warning",
        "gpu-07",
        False,
    )


def test_an_alert_is_acknowledged_once_and_only_while_it_fires(served: Served) -> None:
    fire(served, alert("a"), alert("b", resolved_at=30.0, resolved_by="its condition no longer holds"))
    row = served.call("POST", "/alerts/a/ack").data
    assert row["acknowledged_by"] == pwd.getpwuid(os.geteuid()).pw_name
    assert served.call("POST", "/alerts/a/ack").data["acknowledged_at"] == row["acknowledged_at"]
    assert served.call("POST", "/alerts/b/ack").status == 409
    assert served.call("POST", "/alerts/nope/ack").status == 404


def test_a_silence_is_made_listed_and_ended(served: Served) -> None:
    fire(served, alert("a"))
    made = served.call("POST", "/silences", {"match": "node=gpu-*", "duration_s": 60, "reason": HOSTILE})
    assert made.status == 201
    assert (made.data["alerts"], made.data["user"], made.data["reason"]) == (1, None, "\\x1b[31m<script>")
    assert served.call("GET", "/alerts").data["alerts"][0]["silenced"] is True
    assert served.call("GET", "/silences").data["silences"] == [made.data]
    assert served.call("DELETE", f"/silences/{made.data['id']}").data["match"] == "node=gpu-*"
    assert served.call("GET", "/silences").data == {"silences": []}
    assert served.call("DELETE", f"/silences/{made.data['id']}").status == 404


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"match": "nod=gpu-07", "duration_s": 60}, "alerts have no 'nod'; did you mean 'node'?"),
        ({"match": "", "duration_s": 60}, "write the name of a rule"),
        ({"match": "rule=", "duration_s": 60}, "neither the name of a rule"),
        ({"match": "x" * 501, "duration_s": 60}, "at most 500 are allowed"),
        ({"match": ",".join("abcdefghijklmnopqrstuvw"), "duration_s": 60}, "at most 20 are allowed"),
        ({"match": "a", "duration_s": 0}, "duration_s must be from 1"),
        ({"match": "a", "duration_s": 1e12}, "duration_s must be from 1"),
        ({"match": "a", "duration_s": 60, "reason": "x" * 201}, "at most 200 are allowed"),
        ({"match": "a"}, "duration_s"),
    ],
)
def test_a_silence_that_makes_no_sense_is_refused(served: Served, asked: dict[str, Any], why: str) -> None:
    answer = served.call("POST", "/silences", asked)
    assert answer.status == 422
    assert why in answer.data["error"]["message"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only a server of root's has tokens of other users")
def test_others_than_administrators_acknowledge_and_silence_what_is_about_their_own_jobs(served: Served) -> None:
    token = served.call("POST", "/tokens", {"user": NOBODY}).data["token"]
    reader = served.call("POST", "/tokens", {"user": NOBODY, "scope": "read"}).data["token"]
    fire(served, alert("a"), alert("b", owner=NOBODY))
    assert served.call_tcp("GET", "/alerts", token=reader).status == 200
    assert served.call_tcp("POST", "/alerts/b/ack", token=reader).status == 403
    assert served.call_tcp("POST", "/alerts/a/ack", token=token).status == 403
    assert served.call_tcp("POST", "/alerts/b/ack", token=token).data["acknowledged_by"] == NOBODY
    made = served.call_tcp("POST", "/silences", {"match": "rule-*", "duration_s": 60}, token=token).data
    assert (made["user"], made["alerts"]) == (NOBODY, 1)
    of_root = served.call("POST", "/silences", {"match": "rule-*", "duration_s": 60}).data
    assert served.call_tcp("DELETE", f"/silences/{of_root['id']}", token=token).status == 403
    assert served.call_tcp("DELETE", f"/silences/{made['id']}", token=token).status == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="only a server of root's has tokens of other users")
def test_a_user_has_no_more_than_some_silences(served: Served) -> None:
    token = served.call("POST", "/tokens", {"user": NOBODY}).data["token"]
    asked = {"match": "a", "duration_s": 60}
    answers = [served.call_tcp("POST", "/silences", asked, token=token) for _ in range(21)]
    assert [answer.status for answer in answers] == [201] * 20 + [409]
    assert "you have 20 silences" in answers[-1].data["error"]["message"]


def test_silences_of_all_together_are_bounded_and_nobody_is_told_that_they_are_theirs(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_access, "MOST_SILENCES", 1)
    asked = {"match": "a", "duration_s": 60}
    assert served.call("POST", "/silences", asked).status == 201
    token = served.call("POST", "/tokens", {"user": NOBODY}).data["token"]
    answer = served.call_tcp("POST", "/silences", asked, token=token)
    assert (answer.status, "all users together have 1 silence" in answer.data["error"]["message"]) == (409, True)


def test_alerts_are_counted_for_prometheus_and_for_status(served: Served) -> None:
    fire(served, alert("a"), alert("b"), alert("c", severity=Severity.CRITICAL))
    served.call("POST", "/alerts/b/ack")
    served.call("POST", "/silences", {"match": "rule-c", "duration_s": 60})
    text = served.world.metrics.text().decode()
    lines = [line for line in text.splitlines() if line.startswith("corral_alerts{")]
    assert lines == [
        'corral_alerts{rule="rule-a",severity="warning",state="firing"} 1',
        'corral_alerts{rule="rule-b",severity="warning",state="acknowledged"} 1',
        'corral_alerts{rule="rule-c",severity="critical",state="silenced"} 1',
    ]
    assert served.call("GET", "/server").data["alerts"] == {"warning": 1}
