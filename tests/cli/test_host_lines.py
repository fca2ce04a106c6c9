"""The table of joined hosts, with what is said of those that are not ready."""

from corral.core.model.devices.joined_host import HostState, JoinedHost
from corral.features.hosts.run_commands import host_lines


def test_the_name_of_a_host_is_said_once() -> None:
    reasons = ("a cannot be reached: no route", "a: it has no Python", "the host key of a is unknown")
    said = [list(host_lines([JoinedHost("a", "a", None, HostState.REFUSED, reason=one)]))[-1] for one in reasons]
    assert said == [reasons[0], reasons[1], f"a: {reasons[2]}"]
