from dataclasses import replace

import pytest

from corral.core.access.caller import Caller
from corral.core.access.permissions import can_read_log, may_change, may_read_log, must_be_admin, must_reach
from corral.core.model.errors import Forbidden
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.token import Token, TokenScope

ALICE, BOB = Caller("alice", 1000), Caller("bob", 1001)
ROOT = Caller("root", 0, admin=True, overseer=True)
READER = replace(ROOT, admin=False, token=Token("9", "root", 0, TokenScope.READ, 0.0, "root"))
OF_ALICE = Job("1", 1, JobSpec("alice", command=("true",)), 0.0)


def test_a_job_is_changed_by_its_user_and_by_administrators() -> None:
    may_change(ALICE, OF_ALICE)
    may_change(ROOT, OF_ALICE)
    with pytest.raises(Forbidden, match="belongs to alice"):
        may_change(BOB, OF_ALICE)


def test_an_administrator_whose_token_is_too_small_is_told_that() -> None:
    too_small = "needs a token of scope admin, and token 9 has scope read"
    with pytest.raises(Forbidden, match=too_small):
        may_change(READER, OF_ALICE)
    with pytest.raises(Forbidden, match=too_small):
        must_be_admin(READER, "cordoning a device")
    with pytest.raises(Forbidden, match=r"cordoning a device is for administrators .* you are bob"):
        must_be_admin(BOB, "cordoning a device")


def test_an_administrator_sees_every_log_with_any_token_and_others_only_theirs() -> None:
    for caller in (ALICE, ROOT, READER):
        may_read_log(caller, OF_ALICE)
        assert can_read_log(caller, OF_ALICE)
    with pytest.raises(Forbidden, match="only alice or an administrator may read the log of job 1"):
        may_read_log(BOB, OF_ALICE)
    assert not can_read_log(BOB, OF_ALICE)


def test_who_needs_no_token_reaches_every_scope() -> None:
    must_reach(BOB, TokenScope.ADMIN)
    must_reach(READER, TokenScope.READ)
    with pytest.raises(Forbidden, match="corral token create --scope submit"):
        must_reach(READER, TokenScope.SUBMIT)
