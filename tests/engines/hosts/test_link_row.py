"""The row of a link to a host: what is told, since when, and how long until the next attempt."""

import threading
from dataclasses import replace

from corral.core.model.devices.joined_host import HostState, JoinedHost
from corral.engines.hosts.link_row import HostLinkRow, in_state, of_version, other_version, pause_s, state_after
from corral.engines.hosts.ssh import SshFailure

ROW = JoinedHost("gpu-05", "admin@gpu-05", since=1.0, step="connecting")


def test_a_state_lasts_from_its_beginning_whatever_its_reasons() -> None:
    silent = in_state(ROW, HostState.UNREACHABLE, 5.0, "no route")
    assert (silent.since, silent.reason, silent.step) == (5.0, "no route", None)
    assert in_state(silent, HostState.UNREACHABLE, 9.0, "timeout") == replace(silent, reason="timeout")


def test_what_a_person_must_change_is_told_apart_from_what_passes() -> None:
    assert state_after(SshFailure("no route")) is HostState.UNREACHABLE
    assert state_after(SshFailure("unknown key", by_person=True)) is HostState.REFUSED
    assert state_after(SshFailure("no agent", not_installed=True)) is HostState.REFUSED


def test_another_version_is_told_with_what_to_do_and_its_text_is_harmless() -> None:
    row = of_version(ROW, "0\x1b[2J" + "9" * 1000)
    assert row.version is not None
    assert row.version.isprintable()
    assert len(row.version) == 80
    assert "corral hosts upgrade gpu-05" in str(other_version(row))
    assert of_version(row, None) == row
    assert other_version(ROW) is None


def test_attempts_become_rarer_up_to_one_a_minute() -> None:
    assert [pause_s(failures) for failures in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 8.0]
    assert pause_s(7) == pause_s(10**6) == 60.0


def test_changes_from_several_threads_are_all_kept() -> None:
    row, both = HostLinkRow(ROW), threading.Barrier(2)

    def count(at: int) -> None:
        both.wait()
        for _ in range(2000):
            row.change(lambda one: replace(one, since=(one.since or 0.0) + at))

    threads = [threading.Thread(target=count, args=(at,)) for at in (1, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert row.value.since == 1 + 2000 * 11
