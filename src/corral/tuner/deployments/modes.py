"""Lists the modes of deployment."""

from collections.abc import Mapping

from corral.core.model.tuning.tuning_spec import DeploymentMode
from corral.tuner.deployments.deployment import Mode
from corral.tuner.deployments.docker_mode import DockerMode
from corral.tuner.deployments.model_service_mode import ModelServiceMode
from corral.tuner.deployments.process_mode import ProcessMode

MODES: Mapping[DeploymentMode, Mode] = {
    DeploymentMode.PROCESS: ProcessMode(),
    DeploymentMode.DOCKER: DockerMode(),
    DeploymentMode.OME: ModelServiceMode("ome"),
    DeploymentMode.KSERVE: ModelServiceMode("kserve"),
}
