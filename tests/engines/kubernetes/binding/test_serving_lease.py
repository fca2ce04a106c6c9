"""The lease of a scheduler name on a real API server, between two who would have it."""

import threading
from collections.abc import Iterator

import pytest

from corral.core.model.errors import NodeLacks
from corral.engines.kubernetes.binding.lease_record import DURATION_S, SURE_S, LeaseCandidate, lease_name
from corral.engines.kubernetes.binding.serving_lease import ServingLease
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import ClusterUnreachable
from corral.engines.kubernetes.cluster.resource import LEASES, OWN_NAMESPACE


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def two(cluster: Cluster, namespace: str, clock: Clock) -> Iterator[tuple[ServingLease, ServingLease]]:
    candidates = [LeaseCandidate(f"h_{tag}_1", tag, f"boot:{tag}", f"root@h:/{tag}") for tag in ("aaaa", "bbbb")]
    first, second = (ServingLease(cluster, namespace, one, clock) for one in candidates)
    yield first, second
    first.close()
    second.close()


def test_the_first_has_it_and_the_second_says_who_has(two: tuple[ServingLease, ServingLease]) -> None:
    first, second = two
    first.look()
    second.look()
    assert (first.held, second.held) == (True, False)
    assert "by another server of Corral: server aaaa (root@h:/aaaa), since 20" in str(second.why_not)
    with pytest.raises(NodeLacks, match="aaaa"), second.acting():
        pass


def test_nobody_acts_between_the_end_of_one_and_the_beginning_of_the_next(
    two: tuple[ServingLease, ServingLease], clock: Clock
) -> None:
    first, second = two
    first.look()
    second.look()
    clock.now_s += SURE_S
    second.look()
    assert (first.held, second.held) == (False, False)
    clock.now_s += DURATION_S - SURE_S - 0.1
    second.look()
    assert not second.held
    clock.now_s += 0.2
    second.look()
    assert second.held
    first.look()
    assert not first.held
    assert "bbbb" in str(first.why_not)


def test_it_stays_with_whoever_renews_it(two: tuple[ServingLease, ServingLease], clock: Clock) -> None:
    first, second = two
    for _ in range(20):
        first.look()
        second.look()
        assert (first.held, second.held) == (True, False)
        clock.now_s += 2


def test_what_is_released_is_taken_at_once(two: tuple[ServingLease, ServingLease]) -> None:
    first, second = two
    first.look()
    second.look()
    first.close()
    second.look()
    assert (first.held, second.held) == (False, True)


def test_it_is_not_released_before_what_was_begun_under_it_has_ended(
    two: tuple[ServingLease, ServingLease],
) -> None:
    first, second = two
    first.look()
    closing = threading.Thread(target=first.close)
    with first.acting():
        closing.start()
        while not first._closing:
            pass
        second.look()
        assert not second.held
    closing.join()
    second.look()
    assert second.held


def test_a_server_that_cannot_renew_it_stops_and_goes_on_when_it_can(
    two: tuple[ServingLease, ServingLease], clock: Clock, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = two
    first.look()

    def away(*_: object, **__: object) -> None:
        raise ClusterUnreachable("the API server is away")

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "get", away)
        clock.now_s += SURE_S / 2
        first.look()
        assert first.held
        clock.now_s += SURE_S / 2
        first.look()
        assert "the API server is away" in str(first.why_not)
    first.look()
    assert first.held


def test_two_that_take_it_at_once_do_not_both_have_it(
    two: tuple[ServingLease, ServingLease], cluster: Cluster, namespace: str
) -> None:
    for _ in range(5):
        threads = [threading.Thread(target=one.look) for one in two]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(one.held for one in two) == 1
        cluster.delete(LEASES, lease_name(namespace), OWN_NAMESPACE)
        for one in two:
            one._sure_until_s = 0.0
