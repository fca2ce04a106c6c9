"""The field `gpus` in a submission's request: a number as for `corral run --gpus`, in place of three other fields."""

from collections.abc import Iterator
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.units import MILLI_PER_DEVICE, parse_share_milli

_INSTEAD = ("devices", "share_milli", "split_milli")

SCHEMA = {
    "description": (
        "Number of GPUs, in place of devices, share_milli and split_milli: 2 for two whole ones, 0.5 for half of one, "
        "1.2 spread over several if need be. With mig_profile it counts slices. A multiple of 0.01, as number or text."
    ),
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
}
"""The schema of `gpus` in the API's description."""


def with_gpus_read(data: Any) -> Any:
    """A submission in plain data, or a batch of them under `jobs`, with every `gpus` replaced.

    Data that is not a submission stays as it is, for a stricter reader. Raises Refused if `gpus` is not a number of
    GPUs. Also if it stands beside the fields that it replaces, or outside the request.
    """
    for path, submission in _submissions(data):
        if "gpus" in submission:
            raise Refused(
                f'{path}gpus is not a field of a submission; write it into the request: {{"request": {{"gpus": 2}}}}',
                field=f"{path}gpus",
            )
        request = submission.get("request")
        if isinstance(request, dict) and "gpus" in request:
            submission["request"] = _read(request, f"{path}request.")
    return data


def _submissions(data: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each submission with the prefix of its field names."""
    if not isinstance(data, dict):
        return
    jobs = data.get("jobs")
    if isinstance(jobs, list):
        yield from ((f"jobs[{number}].", job) for number, job in enumerate(jobs) if isinstance(job, dict))
    else:
        yield "", data


def _read(request: dict[str, Any], path: str) -> dict[str, Any]:
    rest = {name: value for name, value in request.items() if name != "gpus"}
    gpus, field = request["gpus"], f"{path}gpus"
    for other in _INSTEAD:
        if other in rest:
            raise Refused(f"{field} and {path}{other} both set the number of GPUs; remove one of them", field=field)
    if isinstance(gpus, bool) or not isinstance(gpus, int | float | str):
        raise Refused(f"{field}: {gpus!r:.80} is not a number of GPUs; write one such as 2 or 0.5", field=field)
    total_milli = parse_share_milli(f"{gpus:.12g}" if isinstance(gpus, float) else str(gpus), field=field)
    if total_milli % MILLI_PER_DEVICE == 0:
        return {**rest, "devices": total_milli // MILLI_PER_DEVICE}
    if rest.get("mig_profile") is not None:
        raise Refused(f"{field}: with mig_profile it counts slices; {gpus} is not a whole number", field=field)
    return {**rest, "share_milli": min(total_milli, MILLI_PER_DEVICE), "split_milli": total_milli}
