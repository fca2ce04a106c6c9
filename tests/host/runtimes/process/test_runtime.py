"""A machine in trouble is told as a failure of the runtime, which the server tries again, and never ends it."""

import pytest

from corral.core.model.errors import BackendFailed
from corral.core.model.home import Home
from corral.host.runtimes.process.runtime import ProcessRuntime
from tests.host.runtimes.process.conftest import Machine, no_descriptors


@pytest.mark.parametrize("ask", ["report", "stop", "forget", "declare_lost"])
def test_a_server_that_can_open_nothing_more_is_told_so(machine: Machine, ask: str) -> None:
    local = ProcessRuntime(machine.runtime, Home(machine.home))
    machine.runtime._verifier.records("a1").make_directory()
    with no_descriptors(), pytest.raises(BackendFailed, match="a1"):
        getattr(local, ask)("a1")
    assert local.declare_lost("a1")
