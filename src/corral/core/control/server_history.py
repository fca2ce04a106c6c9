"""The history of a server, put together: one file, what writes it, and what answers from it."""

from collections import Counter
from collections.abc import Callable, Mapping

from corral.clock import Clock
from corral.config import Settings
from corral.core.control.watching.patrol import Patrol
from corral.core.model.devices.device import DeviceSample
from corral.core.model.view import View
from corral.history.asking import HistoryQueries
from corral.history.file import HistoryFile
from corral.history.group_use import GroupUseRecorder
from corral.history.group_use_table import GroupUseTable
from corral.history.levels import kept_levels
from corral.history.meter import Meter
from corral.history.meter_table import MeterTable
from corral.history.recorder import HistoryRecorder


class ServerHistory:
    """All that a server keeps of its samples.

    Attributes:
        recorder: what the devices were like, and the jobs, nodes, users and projects that had them.
        queries: answers from what the recorder has kept.
        meter: what was made of granted devices, for reports.
        group_use: sums for key figures.
        patrols: a thread for each that writes, so that none misses samples while another one waits for the disk.
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
        """`latest` has the last sample of each device that anything reads; `failures` counts rounds that broke."""
        sampled_s = settings.sample_interval_s
        levels = kept_levels(settings.metrics_retention_days)
        self.recorder = HistoryRecorder(file, latest, clock, levels, sampled_s, view=view)
        self.queries = HistoryQueries(self.recorder, clock)
        self.meter = Meter(MeterTable(file), view, latest, clock, sampled_s)
        self.group_use = GroupUseRecorder(GroupUseTable(file), view, latest, clock, sampled_s)
        looks = {"history": self.recorder.look, "group-use": self.group_use.look, "meter": self.meter.look}
        # Twice as often as samples are taken, so that none waits for long.
        self.patrols = tuple(
            Patrol(name, look, sampled_s / 2, vital=False, failures=failures) for name, look in looks.items()
        )

    def stopped(self) -> str | None:
        """Why the history of devices and jobs is not kept now, None while it is. Safe on any thread."""
        return self.recorder.stopped or self.patrols[0].trouble

    def close(self) -> None:
        """Write what waits, once the patrols are closed, and close the file."""
        self.meter.close()
        self.group_use.close()
        self.recorder.close()
