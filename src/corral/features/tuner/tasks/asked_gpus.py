"""Reads the keys of a task that choose its GPUs: options of jobs, with the same names, values and bounds. Pure."""

from typing import NamedTuple

from corral.client.submitting.option_values import checked_options
from corral.client.submitting.request import device_request
from corral.core.control.submitting.submission_checks import check
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission
from corral.declared.option_fields import options
from corral.features.tuner.model.tuning_spec import GPU_OPTIONS, TuningSpec


class AskedGpus(NamedTuple):
    """The conditions of a task on the GPUs of its experiments.

    Attributes:
        request: the conditions, with the number of named devices, or 1.
        exclusive: each experiment has all GPUs of a node.
    """

    request: Request
    exclusive: bool

    @property
    def several_models(self) -> bool:
        """Whether the task allows experiments on different models of GPU."""
        return len(self.request.models) > 1


def asked_gpus(spec: TuningSpec) -> AskedGpus:
    """Return the conditions of a task. Raises Refused as for a job, with the key of the task as the field."""
    given = {key: value for key in GPU_OPTIONS if (value := getattr(spec, key))}
    request = device_request(checked_options({key: value for key, value in given.items() if key != "exclusive"}, str))
    if spec.exclusive and spec.device:
        raise Refused("exclusive takes all GPUs of a node; remove device", field="exclusive")
    try:
        check(Submission(command=("serve",), request=request))
    except Refused as refused:
        raise _with_key(refused) from None
    return AskedGpus(request, spec.exclusive)


def _with_key(refused: Refused) -> Refused:
    """Return the error about a field of a request as one about the key of the task."""
    keys = {one.field: one.name for one in options().values() if one.name in GPU_OPTIONS}
    key = keys.get(refused.field or "", refused.field)
    return Refused(str(refused).replace(f"{refused.field}:", f"{key}:", 1), field=key)
