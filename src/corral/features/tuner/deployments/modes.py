"""Lists the modes of deployment."""

from collections.abc import Callable, Mapping

from corral.config.tuner import TunerSettings
from corral.features.tuner.deployments.deployment import Mode
from corral.features.tuner.deployments.docker_mode import DockerMode
from corral.features.tuner.deployments.model_service_mode import ModelServiceMode
from corral.features.tuner.deployments.process_mode import ProcessMode
from corral.features.tuner.model.tuning_spec import DeploymentMode


def mode_of(deployment_mode: DeploymentMode, site: TunerSettings) -> Mode:
    """Return the mode of a task on this site."""
    return _MODES[deployment_mode](site)


_MODES: Mapping[DeploymentMode, Callable[[TunerSettings], Mode]] = {
    DeploymentMode.PROCESS: lambda _: ProcessMode(),
    DeploymentMode.DOCKER: lambda site: DockerMode(site.model_root),
    DeploymentMode.OME: lambda _: ModelServiceMode("ome"),
    DeploymentMode.KSERVE: lambda _: ModelServiceMode("kserve"),
}
