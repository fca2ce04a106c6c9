import subprocess

import pytest

from corral.config.tuner import TunerSettings
from corral.core.model.jobs.job import Request
from corral.features.tuner.deployments.deployment import WantedGpus
from corral.features.tuner.deployments.modes import mode_of
from corral.features.tuner.deployments.shell_line import shell_line
from corral.features.tuner.engines.inference_engine import find_inference_engine
from corral.features.tuner.model.tuning_spec import DeploymentMode, ServedModel, TuningSpec

ONE_GPU = WantedGpus(1, Request())
HOSTILE = "m'\x03\nrm -rf ~\n\x1b[201~\\n'$(id)\u202e`id` \u00e9"


@pytest.mark.parametrize("word", [HOSTILE, "plain", "two words", "", "it's", "back\\slash", "\x07" + "7", "\u00e9\t"])
def test_a_shell_reads_each_word_as_it_was(word: str) -> None:
    line = shell_line(("printf", "%s\\0", word, "end"))
    read = subprocess.run(["bash", "-c", line], capture_output=True, check=True, timeout=60).stdout
    assert read.decode() == f"{word}\0end\0"


@pytest.mark.parametrize("mode", DeploymentMode)
def test_nothing_in_the_command_that_serves_is_obeyed_by_a_terminal(mode: DeploymentMode) -> None:
    """Whoever pastes it may not be who wrote the task."""
    parameters = {f"--{HOSTILE}": HOSTILE}
    spec = TuningSpec("task", ServedModel(f"/models/{HOSTILE}"), "vllm", parameters, deployment_mode=mode)
    served = mode_of(mode, TunerSettings())
    assert served.serving_command(spec, find_inference_engine("vllm"), parameters, ONE_GPU).isprintable()
