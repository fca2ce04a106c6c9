"""The mode `process`: an inference server that is installed on the host, as a job there."""

import os
from collections.abc import Mapping
from typing import Any

from corral.features.tuner.deployments.port_holder import HOST, PORT
from corral.features.tuner.deployments.serving_job import JobMode, PrintedWork, ServerWork
from corral.features.tuner.engines.inference_engine import InferenceEngine
from corral.features.tuner.model.tuning_spec import TuningSpec

SERVING_PORT = "8000"

# `python -m` imports from its working directory first, so no other user may be able to write there.
_WORKING_DIRECTORY = "/"
_KEPT_OF_USER = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "SHELL")


class ProcessMode(JobMode):
    """Servers as processes."""

    def work(self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any]) -> ServerWork:
        kept = {key: os.environ[key] for key in _KEPT_OF_USER if key in os.environ}
        command = engine.command(spec.model.id_or_path, parameters, host=HOST, port=PORT)
        return ServerWork(command, {**kept, **spec.env}, _WORKING_DIRECTORY)

    def printed(self, spec: TuningSpec, engine: InferenceEngine, parameters: Mapping[str, Any]) -> PrintedWork:
        command = engine.command(spec.model.id_or_path, parameters, host="127.0.0.1", port=SERVING_PORT)
        return PrintedWork(f"--workdir {_WORKING_DIRECTORY}", tuple(spec.env), command)
