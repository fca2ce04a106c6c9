from dataclasses import FrozenInstanceError, fields, replace
from typing import get_type_hints

import pytest

from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.job_patch import JobPatch, patched
from corral.core.model.jobs.phase import Phase

JOB = Job("1", 1, JobSpec("alice"), 5.0, reason="it failed", exit_code=3)


def test_only_what_a_patch_names_changes_and_none_is_a_value() -> None:
    after = patched(JOB, {"phase": Phase.PENDING, "reason": None})
    assert (after.phase, after.reason, after.exit_code) == (Phase.PENDING, None, 3)
    assert JOB.reason == "it failed"


def test_a_patched_job_is_a_job_like_any_other_that_nobody_can_change() -> None:
    after = patched(JOB, {"exit_code": 4})
    assert after == replace(JOB, exit_code=4)
    with pytest.raises(FrozenInstanceError):
        after.exit_code = 5  # type: ignore[misc]


def test_a_patch_has_the_fields_of_a_job_that_may_change_with_their_types() -> None:
    of_job = {name: hint for name, hint in get_type_hints(Job).items() if name in {one.name for one in fields(Job)}}
    of_submission = {"id", "sequence", "spec", "submitted_at", "array_id", "array_index", "array_limit"}
    assert get_type_hints(JobPatch) == {name: hint for name, hint in of_job.items() if name not in of_submission}


def test_a_field_that_no_job_has_is_refused() -> None:
    with pytest.raises(KeyError):
        patched(JOB, {"fase": Phase.PENDING})  # type: ignore[typeddict-unknown-key]
