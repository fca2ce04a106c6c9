import pytest

from corral.core.model.devices.address import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
def test_these_never_leave_the_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "127.example.org", "localhost", "::ffff:10.0.0.1", ""])
def test_these_may(host: str) -> None:
    assert not is_loopback(host)
