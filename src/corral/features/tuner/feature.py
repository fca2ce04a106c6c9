"""The autotuner: tasks, and the experiments by which they find how to serve a model best."""

from __future__ import annotations

from corral.features.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from corral.core.control.events.rows_of_facts import RowsOfFact
    from corral.core.model.slice import SliceType


class TunerFeature(Feature):
    """Tasks of the autotuner."""

    name = "tuner"

    def slices(self) -> Sequence[SliceType]:
        from corral.features.tuner.slice import TunerSlice

        return (TunerSlice,)

    def topics(self) -> Mapping[str, RowsOfFact]:
        from corral.features.tuner.event_rows import of_tasks

        return {"tasks": of_tasks}


FEATURE = TunerFeature()
