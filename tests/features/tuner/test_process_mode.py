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
    found = os.stat(work.workdir)
    assert (found.st_uid, found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) == (0, 0)
