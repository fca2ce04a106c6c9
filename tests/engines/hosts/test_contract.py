"""Hosts by SSH keep what every engine with several nodes keeps."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.engines.hosts.ssh_pool import SshPool
from tests.engines.pool import Pool
from tests.engines.pool_contract import PoolContract
from tests.hosts_lab.lab import why_no_lab

pytestmark = [pytest.mark.long, pytest.mark.skipif(why_no_lab() is not None, reason=str(why_no_lab()))]


@contextmanager
def two_hosts(gone_after: str) -> Iterator[Pool]:
    pool = SshPool(gone_after)
    try:
        pool.up()
        pool.all_ready()
        yield pool
    finally:
        pool.discard()


@pytest.fixture(scope="module")
def _shared_two() -> Iterator[Pool]:
    with two_hosts("10m") as pool:
        yield pool


@pytest.fixture(scope="module")
def _shared_hasty() -> Iterator[Pool]:
    with two_hosts("5s") as pool:
        yield pool


class TestHostsBySsh(PoolContract):
    @pytest.fixture
    def two(self, _shared_two: Pool) -> Iterator[Pool]:
        yield _shared_two
        _shared_two.restore()

    @pytest.fixture
    def hasty(self, _shared_hasty: Pool) -> Iterator[Pool]:
        yield _shared_hasty
        _shared_hasty.restore()
