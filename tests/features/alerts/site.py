"""A site for the state of alerts: what its ledger would keep, folded from the facts of each look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corral.config.alert_condition import SubjectKind, parse_when
from corral.core.model.fact import Fact
from corral.core.model.severity import Severity
from corral.features.alerts.alert import Alert
from corral.features.alerts.alert_rule import AlertRule
from corral.features.alerts.facts import AlertFired, AlertResolved
from corral.features.alerts.firing import Judged, Memory, Step, Subject, advance
from corral.features.alerts.slice import AlertsSlice
from corral.features.channels.message import AlertMessage


def hot(*, for_s: float = 0.0, clear: float | None = 80, to: tuple[str, ...] = ("ops",)) -> AlertRule:
    return AlertRule("hot", parse_when("temperature_c > 85"), for_s, clear, Severity.WARNING, to)


def device(name: str, temperature_c: float | None) -> Subject:
    return Subject(f"device {name}", f"GPU {name}", {"temperature_c": temperature_c}, (("gpu", name),), group="node a")


@dataclass
class Site:
    """Looks one after the other; `restart` forgets what is in memory."""

    rules: Sequence[AlertRule]
    now: float = 1000.0
    known: AlertsSlice = field(default_factory=AlertsSlice)
    memory: Memory = field(default_factory=Memory)
    facts: list[Fact] = field(default_factory=list)
    told: list[AlertMessage] = field(default_factory=list)

    def look(self, temperatures: Mapping[str, float | None], *, after_s: float = 5.0) -> Step:
        self.now += after_s
        return self.see({SubjectKind.DEVICE: [device(name, degrees) for name, degrees in temperatures.items()]})

    def see(self, seen: Mapping[SubjectKind, Sequence[Subject]]) -> Step:
        rules = [Judged.of(rule) for rule in self.rules]
        step = advance(
            self.memory,
            rules,
            seen,
            self.now,
            alerts=self.known.alerts.values(),
            silences=self.known.silences.values(),
        )
        self.memory = step.memory
        self.commit(*step.facts)
        self.told += [message for _, message in step.messages]
        return step

    def commit(self, *facts: Fact) -> None:
        self.facts += facts
        self.known = self.known.advance(facts)

    def restart(self) -> None:
        self.memory = Memory()

    @property
    def firing(self) -> list[Alert]:
        return [alert for alert in self.known.alerts.values() if alert.fires]

    @property
    def fired(self) -> list[Alert]:
        return [fact.alert for fact in self.facts if isinstance(fact, AlertFired)]

    @property
    def resolved(self) -> list[Alert]:
        return [fact.alert for fact in self.facts if isinstance(fact, AlertResolved)]

    @property
    def sentences(self) -> list[tuple[str, str]]:
        return [(message.subject, message.state.value) for message in self.told]
