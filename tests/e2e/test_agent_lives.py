"""Agents are stopped and killed, servers are killed, and no promise is broken; `make soak` has fifty such lives."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.agent_life import MEMBER, AgentLife

pytestmark = pytest.mark.long


def test_a_cluster_with_real_agents_keeps_its_promises() -> None:
    assert AgentLife(0).live() == []


def test_a_member_that_finds_its_device_in_use_says_so(tmp_path: Path) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    names = {"CORRAL_JOB_ID": "3", "CORRAL_ATTEMPT": "1", "CORRAL_NODE": "a", "CUDA_VISIBLE_DEVICES": "GPU-0,GPU-1"}
    env = {**os.environ, **names, "LOCKS": str(locks)}
    with (locks / "GPU-1").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        subprocess.run(["bash", "-c", MEMBER, "0", "0"], env=env, check=True)
    assert (tmp_path / "locks.broken").read_text() == "job 3 finds GPU-1 in use on a\n"
