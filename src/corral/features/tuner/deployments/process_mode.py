"""The mode `process`: an inference server that is installed on the host, as a job there."""

import os
from collections.abc import Mapping
from typing import Any

from corral.features.tuner.deployments.port_holder import HOST, PORT
from corral.features.tuner.deployments.serving_job import JobMode, ServerWork, gpu_words
from corral.features.tuner.deployments.shell_line import shell_line
from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.model.tuning_spec import TuningSpec

SERVING_PORT = "8000"

# `python -m` imports from its working directory first, so no other user may be able to write there.
_WORKING_DIRECTORY = "/"
_KEPT_OF_USER = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "SHELL")


class ProcessMode(JobMode):
    """Servers as processes."""

    def check(self, spec: TuningSpec, engine: InferenceEngine) -> None:
        """Accept every task."""

    def work(self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any]) -> ServerWork:
        kept = {key: os.environ[key] for key in _KEPT_OF_USER if key in os.environ}
        command = engine.command(spec.model.id_or_path, parameters, host=HOST, port=PORT)
        return ServerWork(command, {**kept, **spec.env}, _WORKING_DIRECTORY)

    def serving_command(
        self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any], gpus: int, members: int = 1
    ) -> str:
        way = self.way_over_nodes(spec, engine, parameters, members)
        given = parameters if way is None else {**way.options, **parameters}
        command = engine.command(spec.model.id_or_path, given, host="127.0.0.1", port=SERVING_PORT)
        words = command if way is None else ("sh", "-c", way.line(command, {}))
        return f"corral run {shell_line(gpu_words(gpus, members))} -- {shell_line(words)}"
