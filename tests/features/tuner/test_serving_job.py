"""Why the job of an experiment failed: where its image cannot be had, no other combination is tried."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from corral.client import Client
from corral.features.tuner.deployments.deployment import ExperimentFailed, NothingDeploys
from corral.features.tuner.deployments.serving_job import ServingJob
from corral.host.runtimes.docker.pulling import ImageMissing

PULLED = str(ImageMissing("image r:1/team/vllm:1 cannot be pulled: connection refused"))


def failure_of(**of_job: Any) -> ExperimentFailed:
    """What an experiment fails with whose job ended so; its log is empty."""
    usual = {
        "phase": "FAILED",
        "ended": True,
        "exit_code": None,
        "signal": None,
        "started_at": None,
        "reason": None,
        "members": (),
    }
    jobs = SimpleNamespace(
        get=lambda job_id: SimpleNamespace(**{**usual, **of_job}),
        why=lambda job_id: SimpleNamespace(diagnosis=None),
        logs=lambda job_id, **_: iter(()),
        logs_bytes=lambda job_id, **_: iter(()),
    )
    serving = ServingJob(cast(Client, SimpleNamespace(jobs=jobs)), "1", "tune-1-exp1", "/health")
    with pytest.raises(ExperimentFailed) as failed:
        serving.await_gpus(None, lambda: None)
    return failed.value


@pytest.mark.parametrize(
    "reason",
    [
        f"it could not be launched 5 times in a row; the last time: {PULLED}",
        "its image could not be pulled after 2m (ImagePullBackOff: no such host)",
        'image i:1 is not on this host, and is not fetched because of "--pull never"',
    ],
)
def test_an_image_that_cannot_be_had_is_no_better_for_another_combination(reason: str) -> None:
    assert isinstance(failure_of(reason=reason), NothingDeploys)


@pytest.mark.parametrize(
    "of_job",
    [
        {"reason": "it could not be launched 5 times in a row; the last time: no space left on device"},
        {"reason": "an image could not be pulled", "started_at": 5.0, "exit_code": 1},
        {"reason": None, "exit_code": 1, "started_at": 5.0},
    ],
)
def test_what_else_fails_an_experiment_may_not_fail_the_next(of_job: dict[str, Any]) -> None:
    assert not isinstance(failure_of(**of_job), NothingDeploys)
