"""The GPUs that the experiments of a task ask for: all of one model, unless the task allows several.

The model is that of the first experiment, so that the figures of a task can be compared.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from corral.core.model.answers.devices import DeviceRow
from corral.core.model.answers.site import NodeRow
from corral.core.model.devices.model_and_profile_match import model_matches
from corral.core.model.jobs.job import Request
from corral.core.model.units import count_of
from corral.core.preflight.model_need import ModelNeed
from corral.features.tuner.answers import ExperimentRow
from corral.features.tuner.deployments.deployment import ExperimentFailed, WantedGpus
from corral.features.tuner.deployments.node_layout import WhyNot, gpu_counts, may_mix, node_layout
from corral.features.tuner.measuring.gpu_records import models_in
from corral.features.tuner.search.trial import FailedStep
from corral.features.tuner.tasks.asked_gpus import AskedGpus
from corral.features.tuner.tasks.obtainable_gpus import most_memory_mib, obtainable


class TaskGpus:
    """Makes the requests of a task's experiments. Thread-safe.

    `devices` and `nodes` are those of the site as the tuner began, `rows` the experiments so far.
    """

    def __init__(
        self,
        asked: AskedGpus,
        devices: Sequence[DeviceRow],
        nodes: Sequence[NodeRow],
        rows: Iterable[ExperimentRow],
    ) -> None:
        self._asked = asked
        self._devices = devices
        self._nodes = nodes
        self.obtainable = obtainable(asked.request, devices, nodes)
        self._lock = threading.Lock()
        self._kept: tuple[str, ...] = ()
        for row in sorted(rows, key=lambda row: row.experiment_id):
            self.note(row.gpu_info)

    @property
    def settled(self) -> bool:
        """Whether further experiments may begin: the model that they keep to is known, or there is none."""
        return self._asked.several_models or bool(self._kept)

    def note(self, gpu_info: Mapping[str, Any] | None) -> None:
        """Keep to the models in the record of an experiment, if it is the first one with GPUs."""
        with self._lock:
            if not self._kept and not self._asked.several_models:
                self._kept = models_in(gpu_info)

    def keeps(self, gpu_info: Mapping[str, Any] | None) -> bool:
        """Return whether these are GPUs of the models that the task keeps to."""
        found = models_in(gpu_info)
        return not self._kept or not found or set(found) <= set(self._kept)

    def wanted(self, need: ModelNeed, models: tuple[str, ...] = ()) -> WantedGpus:
        """Return the GPUs to ask for. `models` are those of an experiment that is measured again, () for another.

        Raises ExperimentFailed if the task names fewer devices.
        """
        asked = self._asked.request
        models = models or self._kept
        request = replace(asked, devices=need.gpus, min_memory_mib=self._memory_mib(need, models))
        if models:
            request = self._only(request, models)
        if asked.device_uuids:
            if need.gpus > len(asked.device_uuids):
                named = count_of(len(asked.device_uuids), "GPU")
                raise ExperimentFailed(
                    FailedStep.NOT_RUNNABLE, f"it needs {need.gpus} GPUs, and the task names {named}"
                )
            request = replace(request, device_uuids=self._named(need.gpus, models))
        if self._asked.exclusive:
            request = replace(request, devices=1)
        return WantedGpus(need.gpus, request, self._asked.exclusive, kept=" and ".join(models))

    def on_nodes(self, wanted: WantedGpus, why_not: WhyNot) -> WantedGpus:
        """Return the GPUs to ask for: those of a gang if no node has so many, and nodes have equal parts of them.

        They are of one model, which is named where a node could mix models. If there is no gang either, the request
        stays as it is, and the reason is kept. Raises ExperimentFailed if the request could then get several models.
        """
        there = gpu_counts(obtainable(wanted.request, self._devices, self._nodes))
        layout = node_layout(wanted.used, there, why_not, exclusive=wanted.exclusive)
        if isinstance(layout, str):
            if may_mix(wanted.used, there, exclusive=wanted.exclusive):
                said = f"it needs {count_of(wanted.used, 'GPU')} of one model: {layout}"
                raise ExperimentFailed(FailedStep.NOT_RUNNABLE, said)
            return wanted._replace(not_over_nodes=layout)
        if layout.model is None:
            return wanted
        if layout.members == 1:
            return wanted._replace(request=self._only(wanted.request, (layout.model,)))
        each = wanted.request.devices if wanted.exclusive else layout.gpus
        gang = replace(wanted.request, devices=each, gang_size=layout.members, spread=True)
        return wanted._replace(request=self._only(gang, (layout.model,)))

    def _named(self, count: int, models: tuple[str, ...]) -> tuple[str, ...]:
        """Return this number of the named devices: of one model if it has so many, and of these models if given."""
        named = self._asked.request.device_uuids
        by_model: dict[str, list[str]] = {}
        for device in sorted(self.obtainable, key=lambda device: named.index(device.uuid)):
            if not models or device.name in models:
                by_model.setdefault(device.name, []).append(device.uuid)
        holding = [uuids for uuids in by_model.values() if len(uuids) >= count]
        return tuple(max(holding, key=len, default=named)[:count])

    def _only(self, request: Request, models: tuple[str, ...]) -> Request:
        """Return the request for these models alone. Nodes with others of similar names are excluded."""
        alike = {device.node for device in self._devices if _is_alike(device, models)} - {None}
        nodes = dict.fromkeys((*request.excluded_nodes, *sorted(node for node in alike if node is not None)))
        return replace(request, models=models, excluded_nodes=tuple(nodes))

    def _memory_mib(self, need: ModelNeed, models: tuple[str, ...]) -> int | None:
        """Return the least memory to ask for, None for any.

        It is that of the largest GPU if this one has less than estimated, and may still hold the candidate.
        """
        least = self._asked.request.min_memory_mib
        if need.min_memory_mib is None:
            return least
        most = most_memory_mib([one for one in self.obtainable if not models or one.name in models])
        may_hold = most is not None and (need.floor_mib or 0) <= most
        wanted = min(need.min_memory_mib, most) if most is not None and may_hold else need.min_memory_mib
        return max(wanted, least or 0)


def _is_alike(device: DeviceRow, models: tuple[str, ...]) -> bool:
    """Return whether a request for these models would also accept this device, which is of another model."""
    return device.name not in models and model_matches(models, device.name)
