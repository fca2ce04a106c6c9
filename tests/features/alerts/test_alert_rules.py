"""The alert rules of a site: Corral's own, those of its thresholds, and its own."""

from pathlib import Path

import pytest

from corral.config import Settings, load_settings
from corral.config.differences import differences
from corral.core.control.site.from_settings import site_setup
from corral.core.model.errors import Refused
from corral.core.model.severity import Severity
from corral.features.alerts.alert_rule import AlertRule
from corral.features.alerts.alert_rules import alert_rules
from corral.features.alerts.built_in import BUILT_IN
from corral.features.alerts.feature import FEATURE
from corral.features.alerts.firing import Judged

CHANNELS = "channels: {ops: 'json://localhost:1/hook'}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def read(path: Path, text: str) -> Settings:
    path.write_text(text)
    path.chmod(0o600)
    return load_settings(path)


def rules(path: Path, text: str) -> dict[str, AlertRule]:
    return {rule.name: rule for rule in alert_rules(read(path, text))}


def refusal(path: Path, text: str) -> str:
    with pytest.raises(Refused) as refused:
        site_setup(read(path, text), None, arrange=[FEATURE.arranged])
    return str(refused.value)


def test_corrals_own_rules_can_be_judged_and_say_what_to_do() -> None:
    assert all(rule.advice and Judged.of(rule) for rule in BUILT_IN)
    assert {rule.name for rule in BUILT_IN} < {rule.name for rule in alert_rules(Settings())}


def test_a_rule_of_the_site_is_as_it_is_written(path: Path) -> None:
    text = (
        'alerts:\n  - {name: gpu-hot, when: "temperature_c > 85", for: 60s, clear: 80, severity: critical, to: [ops]}\n'
    )
    rule = rules(path, CHANNELS + text)["gpu-hot"]
    assert (rule.when.text, rule.for_s, rule.clear) == ("temperature_c > 85", 60, 80)
    assert (rule.severity, rule.to) == (Severity.CRITICAL, ("ops",))


def test_what_a_site_says_of_a_rule_of_corrals_replaces_that_alone(path: Path) -> None:
    own = next(rule for rule in BUILT_IN if rule.name == "throttled")
    rule = rules(path, "alerts:\n  - {name: throttled, for: 10m, to: []}\n")["throttled"]
    assert (rule.when, rule.for_s, rule.to, rule.advice) == (own.when, 600, (), own.advice)


def test_thresholds_become_rules_and_a_full_gpu_is_information(path: Path) -> None:
    text = "monitoring:\n  alert_thresholds: {temperature: 82, utilization: 95, memory: 90, power: 300}\n"
    found = rules(path, CHANNELS + text)
    assert [(found[name].when.text, found[name].clear, found[name].severity.value, found[name].to) for name in (
        "temperature", "utilization", "memory", "power",
    )] == [
        ("temperature_c > 82", 77, "warning", ("ops",)),
        ("utilization_pct > 95", 90, "info", ()),
        ("memory_used_pct > 90", 85, "info", ()),
        ("power_w > 300", 285, "warning", ("ops",)),
    ]  # fmt: skip
    assert "utilization" not in rules(path, "")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ('{name: hot, when: "temprature_c > 85"}', "line 3: alert.when: 'temprature_c > 85', character 1: there is no"),
        ('{name: hot, when: "temprature_c > 85"}', "did you mean 'temperature_c'?"),
        ('{name: hot, wen: "temperature_c > 85"}', "alert.wen is not a setting; did you mean 'when'?"),
        ("{name: throtled, for: 1m}", "line 3: alert throtled: it has no condition (when)"),
        ("{name: throtled, for: 1m}", "did you mean 'throttled'?"),
        ('{name: hot, when: "temperature_c > 85", clear: 90}', "line 3: alert hot: clear must be at most 85"),
        ('{name: hot, when: "temperature_c > 85", for: 60}', "alert.for"),
        ('{name: hot, when: "temperature_c > 85", severity: bad}', "alert.severity"),
        (
            "{name: throttled, to: [ops]}",
            "line 3: alert throttled: to: there is no channel 'ops'; `channels` names none",
        ),
        ('{name: "hot spot", when: "temperature_c > 85"}', "cannot be the name of a rule"),
        ('{when: "temperature_c > 85"}', "has no name"),
    ],
)
def test_a_rule_with_a_mistake_is_refused_with_its_line(path: Path, rule: str, why: str) -> None:
    assert why in refusal(path, f"kill_grace: 5s\nalerts:\n  - {rule}\n")


def test_a_rule_that_is_there_twice_and_more_rules_than_there_may_be_are_refused(path: Path) -> None:
    line = '  - {{name: r{0}, when: "temperature_c > 85"}}\n'
    assert "defined twice" in refusal(path, "alerts:\n" + line.format(1) * 2)
    assert "at most 100 are allowed" in refusal(path, "alerts:\n" + "".join(line.format(n) for n in range(101)))


def test_what_a_reload_changes_of_rules_is_told(path: Path) -> None:
    before = read(path, "alerts:\n  - {name: throttled, for: 10m}\n")
    after = read(path, 'alerts:\n  - {name: throttled, for: 20m, when: "power_w > 3"}\n')
    found = differences(before, after, frozenset({"alerts"}))
    assert {(one.setting, one.old, one.new) for one in found} == {
        ("alerts.throttled.for", "10m", "20m"),
        ("alerts.throttled.when", None, "power_w > 3"),
    }
