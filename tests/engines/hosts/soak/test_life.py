"""A short life of hosts under faults; `make soak` has long ones."""

import pytest

from tests.engines.hosts.soak.life import HostsLife
from tests.hosts_lab.lab import why_no_lab

pytestmark = [pytest.mark.long, pytest.mark.skipif(why_no_lab() is not None, reason=str(why_no_lab()))]


def test_hosts_that_are_killed_and_cut_off_end_all_jobs_and_none_twice() -> None:
    life = HostsLife(1, hosts=3, jobs=20, patience_s=120.0)
    assert life.live(faults=8) == []
    assert sum(life.ended.values()) == 20
