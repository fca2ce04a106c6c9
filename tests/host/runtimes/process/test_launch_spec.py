import os
import resource
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.host.runtimes.process import supervisor_orders
from corral.host.runtimes.process.records.launch_spec import LaunchSpec, lowered_limits

WORDS = st.binary(max_size=30).map(os.fsdecode).filter(lambda text: "\0" not in text)
NAMES = WORDS.filter(lambda text: text and "=" not in text)


def _spec(argv: tuple[str, ...] = ("true",), env: dict[str, str] | None = None, name: str = "a1") -> LaunchSpec:
    return LaunchSpec(name, "7", argv, env or {}, "/tmp", "/logs/7.log", "/scratch/7", notes=("hello",))


@given(arguments=st.lists(WORDS, max_size=4), env=st.dictionaries(NAMES, WORDS, max_size=4))
def test_command_and_orders_survive_the_disk_byte_for_byte(arguments: list[str], env: dict[str, str]) -> None:
    spec = _spec(("python", *arguments), env)
    command = spec.command({"MARK": "x"}, {"RLIMIT_NOFILE": 9})
    order = spec.orders(
        kill_grace_s=1.5,
        log_max_bytes=10,
        notes=("more",),
        limits=[],
        closed=[195, 0, 3],
        cgroup=None,
        notify_path="/n",
        boot_at=7.5,
    )
    text = supervisor_orders.encode(order, command).encode().decode()
    assert supervisor_orders.Orders(*supervisor_orders.decode(text.partition("\n")[0])) == order
    assert supervisor_orders.decode_command(text) == command
    assert command.env == {**env, "MARK": "x"}
    assert order.notes == ["hello", "more"]


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a b", "x" * 129, "a\n"])
def test_an_launch_id_that_cannot_name_a_directory_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a directory"):
        _spec(name=name)


@pytest.mark.parametrize(
    ("argv", "env", "complaint"),
    [
        ((), {}, "no command to run"),
        (("",), {}, "no command to run"),
        (("a\0b",), {}, "NUL byte"),
        (("a",), {"B": "\0"}, "NUL byte"),
        (("a",), {"B=C": ""}, "cannot name an environment variable"),
        (("a",), {"": "x"}, "cannot name an environment variable"),
    ],
)
def test_what_no_process_can_be_started_with_is_refused(
    argv: tuple[str, ...], env: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        _spec(argv, env)


def test_a_job_of_the_servers_own_user_changes_no_user() -> None:
    spec = LaunchSpec(
        "a1", "7", ("true",), {}, "/", "/l", "/s",
        uid=os.geteuid(), gid=os.getegid(), groups=tuple(os.getgroups()),
    )  # fmt: skip
    assert not spec.changes_user
    assert spec.command({}, {})[4:7] == (None, None, None)


@pytest.mark.parametrize("identity", [{"uid": 1}, {"uid": 1, "gid": 1}, {"gid": 1, "groups": ()}])
def test_half_of_another_users_identity_is_refused(identity: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="uid, gid and groups go together"):
        LaunchSpec("a1", "7", ("true",), {}, "/", "/l", "/s", **identity)


def test_limits_are_lowered_but_never_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda number: (100, 1000))
    wanted = {"RLIMIT_NOFILE": 50, "RLIMIT_NPROC": 5000, "RLIMIT_CORE": -1, "RLIMIT_HUMOUR": 1, "getrlimit": 2}
    given_limits, lines = lowered_limits(wanted)
    assert given_limits == {"RLIMIT_NOFILE": 50, "RLIMIT_NPROC": 1000, "RLIMIT_CORE": 1000}
    assert lines == (
        "limit RLIMIT_NPROC is 1000 instead of 5000: the server itself may have no more",
        "limit RLIMIT_CORE is 1000 instead of unlimited: the server itself may have no more",
        "limit RLIMIT_HUMOUR is not known on this machine and stays as it is",
        "limit getrlimit is not known on this machine and stays as it is",
    )


def test_an_unlimited_server_gives_any_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda number: (-1, -1))
    assert lowered_limits({"RLIMIT_CORE": -1, "RLIMIT_CPU": 60}) == ({"RLIMIT_CORE": -1, "RLIMIT_CPU": 60}, ())
