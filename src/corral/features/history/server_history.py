"""Connects the parts of a server's history: its file, the writers, and the queries."""

from collections import Counter
from collections.abc import Callable, Mapping

from corral.clock import Clock
from corral.config import Settings
from corral.core.control.watching.patrol import Patrol
from corral.core.model.devices.device import DeviceSample
from corral.core.model.view import View
from corral.features.history.asking import HistoryQueries
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.group_use import GroupUseRecorder
from corral.features.history.recording.group_use_table import GroupUseTable
from corral.features.history.recording.levels import kept_levels
from corral.features.history.recording.meter import Meter
from corral.features.history.recording.meter_table import MeterTable
from corral.features.history.recording.recorder import HistoryRecorder


class ServerHistory:
    """The history of a server's samples.

    Attributes:
        recorder: records the state of devices, and of the jobs, nodes, users and projects that held them.
        queries: answers queries from the recorded history.
        meter: measures how much of the granted devices was used, for reports.
        group_use: sums for key figures.
        patrols: a thread for each writer, so that none misses samples while another waits for the disk.
    """

    def __init__(
        self,
        file: HistoryFile,
        view: Callable[[], View],
        latest: Callable[[], Mapping[str, DeviceSample]],
        clock: Clock,
        settings: Settings,
        *,
        failures: Counter[str],
    ) -> None:
        """`latest` returns the last sample of each device with readings. `failures` counts failed rounds."""
        sampled_s = settings.sample_interval_s
        levels = kept_levels(settings.metrics_retention_days)
        self.recorder = HistoryRecorder(file, latest, clock, levels, sampled_s, view=view)
        self.queries = HistoryQueries(self.recorder, clock)
        self.meter = Meter(MeterTable(file), view, latest, clock, sampled_s)
        self.group_use = GroupUseRecorder(GroupUseTable(file), view, latest, clock, sampled_s)
        looks = {"history": self.recorder.look, "group-use": self.group_use.look, "meter": self.meter.look}
        # This is twice the sampling rate, so that no sample waits long.
        self.patrols = tuple(
            Patrol(name, look, sampled_s / 2, vital=False, failures=failures) for name, look in looks.items()
        )

    def stopped(self) -> str | None:
        """Return why the history of devices and jobs is not recorded now, None while it is. Thread-safe."""
        return self.recorder.stopped or self.patrols[0].trouble

    def close(self) -> None:
        """Write the waiting data and close the file. The patrols must be closed before."""
        self.meter.close()
        self.group_use.close()
        self.recorder.close()
