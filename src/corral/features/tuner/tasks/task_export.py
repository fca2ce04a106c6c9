"""Exports the results of a task: a table of all experiments, and the best way to serve the model. Pure."""

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any

import yaml

from corral.config.tuner import TunerSettings
from corral.core.model.errors import Refused
from corral.features.services.manifests import claim_mount, claim_volume
from corral.features.services.service_env import env_entries
from corral.features.tuner.answers import ExperimentRow, TaskDetail
from corral.features.tuner.engines.inference_engine import engine_of
from corral.features.tuner.finding_answers import ExperimentSummary
from corral.features.tuner.measuring.gpu_records import members_in
from corral.features.tuner.tasks.serving_plan import gpus_of, serving_command, serving_plan

_COLUMNS = ("experiment_id", "status", "objective_score", "gpus", "gpu_model", "job_id", "error_message")
_TIMES = ("created_at", "started_at", "completed_at")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MOST_NAME = 50
_OME_PORT = "8080"


def experiments_csv(detail: TaskDetail, summaries: Sequence[ExperimentSummary]) -> str:
    """Return a CSV line for each experiment: its state, its parameters, its measurements."""
    parameters = dict.fromkeys(name for one in summaries for name in one.parameters)
    figures = dict.fromkeys(name for one in summaries for name in one.figures)
    text = StringIO()
    lines = csv.writer(text)
    lines.writerow([*_COLUMNS, *map(_cell, parameters), *figures, *_TIMES])
    for one in summaries:
        lines.writerow(
            [
                *(_cell(getattr(one, name)) for name in _COLUMNS),
                *(_cell(one.parameters.get(name)) for name in parameters),
                *(one.figures.get(name) for name in figures),
                *(getattr(one, name) for name in _TIMES),
            ]
        )
    return text.getvalue()


def winner_yaml(detail: TaskDetail, best: ExperimentRow, site: TunerSettings) -> str:
    """Return the best experiment with its traffic and its serving command, as YAML."""
    found: dict[str, Any] = {
        "task": {"id": detail.task.id, "name": detail.config.task_name, "objective": detail.task.objective},
        "model": detail.config.model.id_or_path,
        "base_runtime": detail.config.base_runtime,
        "parameters": dict(best.parameters),
        "gpus": gpus_of(detail, best).used,
        "experiment": best.experiment_id,
        "objective_score": best.objective_score,
        "traffic": {
            "scenarios": list(detail.config.benchmark.traffic_scenarios),
            "concurrency": list(detail.config.benchmark.num_concurrency),
        },
        "metrics": {name: value for name, value in (best.metrics or {}).items() if type(value) in (int, float)},
        "command": serving_command(detail, best, site),
    }
    return _yaml(found)


def submit_line(detail: TaskDetail, best: ExperimentRow, site: TunerSettings) -> str:
    """Return the command that submits a serving job with the best parameters; for a model service, the one that
    deploys it.
    """
    command = serving_command(detail, best, site)
    if not command.startswith("corral run "):
        return f"{command}\n"
    return f"corral submit {command.removeprefix('corral run ')}\n"


def ome_manifest(detail: TaskDetail, best: ExperimentRow, site: TunerSettings) -> str:
    """Return an InferenceService of OME with the best parameters, as YAML.

    Its command and arguments are complete, because OME replaces the runtime's own by them. OME sets $(MODEL_PATH). It
    has the storage of a task for model services. The values of variables are those of a Secret, which it names.
    Raises Refused if the engine of a runtime is not known.
    """
    _refuse_gang(best)
    model, engine = detail.config.model, engine_of(detail.config)
    if not engine.program:
        raise Refused(
            f"of which engine the runtime {detail.config.base_runtime} is is not known here; use: "
            f"{serving_command(detail, best, site)}",
            field="format",
        )
    program, *arguments = engine.command("$(MODEL_PATH)", best.parameters, host="0.0.0.0", port=_OME_PORT)
    gpus = {"nvidia.com/gpu": str(gpus_of(detail, best).used)}
    runner: dict[str, Any] = {
        "name": "ome-container",
        "command": [program],
        "args": arguments,
        "resources": {"limits": gpus, "requests": dict(gpus)},
    }
    server: dict[str, Any] = {"minReplicas": 1, "maxReplicas": 1, "runner": runner}
    metadata: dict[str, Any] = {"name": _object_name(detail.config.task_name), "namespace": model.namespace}
    wanted = serving_plan(detail, best, site).service
    if wanted is not None and wanted.env:
        runner["env"] = env_entries(metadata["name"], {}, wanted.env)
    if wanted is not None and wanted.claim is not None:
        server["volumes"], runner["volumeMounts"] = [claim_volume(wanted.claim)], [claim_mount(wanted.claim)]
        metadata["annotations"] = wanted.claim.annotations
    service = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": {
            "model": {"name": _object_name(model.id_or_path.rstrip("/").rsplit("/", 1)[-1])},
            "runtime": {"name": detail.config.base_runtime},
            "engine": server,
        },
    }
    return _yaml(service)


WINNERS: Mapping[str, Callable[[TaskDetail, ExperimentRow, TunerSettings], str]] = {
    "yaml": winner_yaml,
    "submit": submit_line,
    "ome": ome_manifest,
}
"""The functions that export the best experiment, by the name of the format."""


def _refuse_gang(best: ExperimentRow) -> None:
    """Raise Refused if the experiment ran on several nodes: a service asks for the GPUs of one."""
    members = members_in(best.gpu_info)
    if members > 1:
        said = f"the best experiment ran on {members} nodes, and an exported service runs on one"
        raise Refused(f"format: {said}; export the `submit` line instead", field="format")


def _yaml(value: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=False, width=120)
    return text


def _object_name(text: str) -> str:
    """Return the text, changed to be a valid name of a Kubernetes object."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_MOST_NAME].strip("-")
    return name if name[:1].isalpha() else f"m-{name}".rstrip("-")


def _cell(value: Any) -> Any:
    """Put a quote before a text that a spreadsheet would run as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
