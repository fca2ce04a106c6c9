"""Inference servers as processes of the host."""

import os
import stat

from corral.features.tuner.deployments.process_mode import ProcessMode
from corral.features.tuner.engines.inference_engine import find_inference_engine
from corral.features.tuner.model.tuning_spec import ServedModel, TuningSpec


def test_a_server_works_where_no_other_user_can_leave_modules_for_python_to_import() -> None:
    engine = find_inference_engine("sglang")
    spec = TuningSpec("find", ServedModel("toy"), "sglang")
    work = ProcessMode().work(spec, engine, {})
    assert "-m" in work.command
    # Of the directories that every host has, this one alone is root's on all of them; /tmp is everybody's on most.
    assert work.workdir == "/"
    assert os.stat(work.workdir).st_mode & (stat.S_IWGRP | stat.S_IWOTH) == 0
