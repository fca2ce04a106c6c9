"""Builds the history of a server."""

from collections.abc import Iterator

from corral.core.control.metrics.exposition import Row, family
from corral.core.model.slice import LedgerSnapshot
from corral.features.building import Built, CoreDoors
from corral.features.history.key_figures import KeyFigures
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.job_uses import LOOK_INTERVAL_S, JobUses
from corral.features.history.server_history import ServerHistory


def build(core: CoreDoors) -> Built:
    """The patrols that record, the queries, and the key figures."""
    file = HistoryFile(core.home.history_file)
    history = ServerHistory(file, core.ledger.view, core.readings, core.clock, core.settings, failures=core.failures)
    uses = JobUses(core.ledger, history.meter)

    def metrics(snapshot: LedgerSnapshot, now: float) -> Iterator[str]:
        return family(
            "corral_history_stopped",
            "gauge",
            "1 while the history of devices cannot be written, else 0.",
            [Row("", int(history.stopped() is not None))],
        )

    return Built(
        offers=(history, history.queries, KeyFigures(core.ledger, history.group_use, core.requests, core.clock)),
        patrols=(*history.patrols, core.patrol("job-uses", uses.look, LOOK_INTERVAL_S)),
        metrics=metrics,
        monitoring=history.queries.monitoring,
        predict_use=uses.predict,
        close=history.close,
    )
