"""Builds the health of devices of a server."""

from collections.abc import Iterator

from corral.core.control.metrics.exposition import Row, family, labelled
from corral.core.model.devices.health import Health
from corral.core.model.slice import LedgerSnapshot
from corral.features.building import Built, CoreDoors
from corral.features.health.health_access import HealthAccess


def build(core: CoreDoors) -> Built:
    """The use cases, and the metrics of devices that were ever sick."""
    return Built(offers=(HealthAccess(core.ledger, core.nodes, core.clock, core.readings),), metrics=_metrics)


def _metrics(snapshot: LedgerSnapshot, now: float) -> Iterator[str]:
    sick = [
        (health, {"node": node.name, "gpu": str(device.index), "uuid": device.uuid})
        for node in snapshot.view.nodes.values()
        for device in node.devices
        if (health := snapshot.view.health.get(device.uuid)) is not None
    ]
    yield from family(
        "corral_device_health",
        "gauge",
        "1 for the health of a device that was ever sick, 0 for the others: healthy, suspect, quarantined, probation.",
        (
            Row(labelled(**labels, health=state.value), int(health.state is state))
            for health, labels in sick
            for state in Health
        ),
    )
    yield from family(
        "corral_device_relapses",
        "gauge",
        "The times that a device fell sick since its faults were forgotten last.",
        (Row(labelled(**labels), health.relapses) for health, labels in sick),
    )
