"""Settings that contradict each other are found and said in words."""

from typing import Any

import pytest

from corral.core.model.queues.queue import Pool, Project, Queue, Quota
from corral.core.scheduling.contradictions import contradictions


def found(*things: Queue | Project | Pool) -> tuple[str, ...]:
    def named(kind: type[Any]) -> dict[str, Any]:
        return {one.name: one for one in things if isinstance(one, kind)}

    return tuple(map(str, contradictions(named(Queue), named(Project), named(Pool))))


def test_sound_settings_are_sound() -> None:
    lab = Queue("lab", quota=Quota(share_milli=8000))
    day = Queue("day", "fair-share", parent="lab", quota=Quota(share_milli=4000, borrow_milli=2000))
    assert found(lab, day, Project("nlp", quota=Quota(gpu_hours=10, period_s=86400))) == ()


@pytest.mark.parametrize(
    ("things", "words"),
    [
        ([Queue("a", "sfj")], "queue a: there is no policy 'sfj'; did you mean 'sjf'?"),
        ([Queue("a", parent="b")], "queue a: its parent 'b' does not exist; known: a"),
        ([Queue("a", weight=0)], "queue a: its weight is 0; it must be above 0"),
        ([Project("p", weight=-1.5)], "project p: its weight is -1.5; it must be above 0"),
        ([Project("p", user_weights=(("al", 0.0),))], "project p: the weight of al is 0; it must be above 0"),
        (
            [Project("p", users=("alice",), user_weights=(("alise", 2.0),))],
            "project p: alise has a weight in it but is not a member; did you mean 'alice'?",
        ),
        ([Queue("a", quota=Quota(devices=-1))], "queue a: its limit devices is -1; the least is 0"),
        (
            [Project("p", quota=Quota(gpu_hours=5))],
            "project p: its quota has gpu_hours without period; give both, or neither",
        ),
        (
            [Queue("a", quota=Quota(running=2)), Queue("b", parent="a", quota=Quota(running=3))],
            "queue b: its quota of running: 3 is more than the running: 2 of a above it",
        ),
        ([Pool("x", ("G",))], "pool x: it belongs to nobody; name users or projects"),
        (
            [Pool("x", ("G",), users=("a",)), Pool("y", ("G",), users=("b",))],
            "pool y: device G is in pool x already",
        ),
    ],
)
def test_each_contradiction_has_its_sentence(things: list[Any], words: str) -> None:
    (sentence,) = found(*things)
    assert sentence == words


def test_a_pool_is_of_projects_that_are_there_where_the_site_has_set_up_any() -> None:
    pool = Pool("x", ("G",), projects=("nlq", "default"))
    assert found(pool) == ()
    assert found(Project("nlp"), pool) == ("pool x: its project 'nlq' does not exist; did you mean 'nlp'?",)


def test_queues_in_a_circle_are_found_and_do_not_hang() -> None:
    assert found(Queue("a", parent="b"), Queue("b", parent="a")) == (
        "queue a: it is its own ancestor; give it a parent that is not below it, or none",
        "queue b: it is its own ancestor; give it a parent that is not below it, or none",
    )


def test_borrowing_needs_somebody_beside_and_a_share_of_its_own() -> None:
    assert found(Queue("a", quota=Quota(borrow_milli=5))) == (
        "queue a: it may borrow, but it has no parent, so no other queue can lend to it",
        "queue a: it may borrow, but its quota of GPUs is not limited; limit it",
    )
