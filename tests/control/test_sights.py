"""Files are looked at once for many submissions, with their caller's rights, and what was seen is soon forgotten."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from corral.access.caller import Caller
from corral.clock import ManualClock
from corral.control import sights as module
from corral.control.sights import TRUST_S, Sights
from corral.model.job import JobKind, Request
from corral.model.submission import Submission
from corral.node.looks import OwnLooks
from corral.ports import Credentials, Look
from corral.preflight.looking import FileFacts

ALICE = Caller("alice", 1000, 1000, (1000, 44))
BOB = Caller("bob", 1001, 1001, (1001,))
JOB = Submission(("python", "train.py", "--lr", "1"), workdir="/", env={"PATH": "/usr/bin"})
WITHOUT_GPUS = replace(JOB, request=Request(devices=0))


class CountedLooks(OwnLooks):
    """Every look that was asked for, and as whom."""

    def __init__(self) -> None:
        self.asked: list[tuple[Look, Credentials | None]] = []

    def at(self, looks: Sequence[Look], who: Credentials | None) -> dict[Look, FileFacts]:
        self.asked += [(look, who) for look in looks]
        return super().at(looks, who)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def looks() -> CountedLooks:
    return CountedLooks()


@pytest.fixture
def sights(looks: CountedLooks, clock: ManualClock) -> Sights:
    return Sights(looks, clock)


def test_what_was_seen_is_known_for_a_while_and_to_nobody_else(sights: Sights, clock: ManualClock) -> None:
    assert sights.known([JOB], ALICE) is None
    seen = sights.look([JOB], ALICE)
    assert sights.known([JOB], ALICE) == seen
    assert sights.known([JOB], BOB) is None
    assert sights.known([replace(JOB, workdir="/tmp")], ALICE) is None
    clock.advance(TRUST_S)
    assert sights.known([JOB], ALICE) is None


def test_a_look_has_the_rights_of_the_caller(sights: Sights, looks: CountedLooks) -> None:
    sights.look([JOB], ALICE)
    assert {who for _, who in looks.asked} == {Credentials(1000, 1000, (1000, 44))}


def test_commands_with_the_same_files_are_looked_at_once(
    sights: Sights, looks: CountedLooks, clock: ManualClock
) -> None:
    sweep = [replace(JOB, command=("python", "train.py", str(n)), env={**JOB.env, "N": str(n)}) for n in range(50)]
    sights.look(sweep, ALICE)
    assert len(looks.asked) == 2
    sights.look([replace(JOB, command=("python", "other.py"))], ALICE)
    assert len(looks.asked) == 2
    clock.advance(TRUST_S)
    sights.look(sweep, ALICE)
    assert len(looks.asked) == 4


def test_a_sight_is_trusted_from_the_time_of_the_look_that_it_rests_on(sights: Sights, clock: ManualClock) -> None:
    sights.look([JOB], ALICE)
    clock.advance(TRUST_S * 0.75)
    other = replace(JOB, command=("perl", "other.pl"))
    sights.look([other], ALICE)
    clock.advance(TRUST_S * 0.5)
    assert sights.known([other], ALICE) is None


def test_a_job_without_gpus_has_only_its_directory_looked_at(sights: Sights, looks: CountedLooks) -> None:
    sights.look([WITHOUT_GPUS], ALICE)
    assert looks.asked == [(Look(directory="/"), Credentials(1000, 1000, (1000, 44)))]
    assert sights.known([JOB], ALICE) is None


def test_a_reservation_has_nothing_looked_at(sights: Sights, looks: CountedLooks) -> None:
    sights.look([Submission(kind=JobKind.RESERVE)], ALICE)
    assert looks.asked == []


def test_who_makes_the_directory_that_was_missing_is_let_in_at_once(sights: Sights, tmp_path: Path) -> None:
    job = replace(WITHOUT_GPUS, workdir=str(tmp_path / "run"))
    assert sights.look([job], ALICE)[0].enterable is False
    (tmp_path / "run").mkdir()
    assert sights.look([job], ALICE)[0].enterable is True


def test_what_does_not_answer_is_not_known_and_not_asked_again_at_once(clock: ManualClock) -> None:
    class Silence(CountedLooks):
        def at(self, looks: Sequence[Look], who: Credentials | None) -> dict[Look, FileFacts]:
            super().at(looks, who)
            return {}

    silent = Silence()
    sights = Sights(silent, clock)
    for _ in range(3):
        (sight,) = sights.look([JOB], ALICE)
        assert (sight.enterable, sight.detection) == (None, None)
    assert len(silent.asked) == 2


def test_many_sights_are_not_remembered_for_ever(sights: Sights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    jobs = [replace(WITHOUT_GPUS, workdir=f"/{name}") for name in ("tmp", "usr", "etc")]
    assert [sight.enterable for sight in sights.look(jobs, ALICE)] == [True, True, True]
    assert [sights.known([job], ALICE) is not None for job in jobs] == [False, True, True]
