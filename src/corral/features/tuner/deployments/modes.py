"""Lists the modes of deployment."""

from collections.abc import Mapping

from corral.features.tuner.deployments.deployment import Mode
from corral.features.tuner.deployments.docker_mode import DockerMode
from corral.features.tuner.deployments.model_service_mode import ModelServiceMode
from corral.features.tuner.deployments.process_mode import ProcessMode
from corral.features.tuner.model.tuning_spec import DeploymentMode

MODES: Mapping[DeploymentMode, Mode] = {
    DeploymentMode.PROCESS: ProcessMode(),
    DeploymentMode.DOCKER: DockerMode(),
    DeploymentMode.OME: ModelServiceMode("ome"),
    DeploymentMode.KSERVE: ModelServiceMode("kserve"),
}
