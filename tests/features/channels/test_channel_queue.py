"""What waits for a channel: in order, bounded, tried with growing pauses, and given up in the end."""

from hypothesis import given
from hypothesis import strategies as st

from corral.features.channels.channel_process import Outgoing
from corral.features.channels.channel_queue import (
    LONGEST_PAUSE_S,
    LONGEST_S,
    MOST_TRIES,
    SITE_PACE,
    USER_PACE,
    ChannelQueue,
    Pace,
)
from corral.features.channels.outbox import Waiting


def message(number: int, group: str = "", type: str = "info") -> Waiting:
    return Waiting(Outgoing(str(number), "title", "body", type, {}, group), 0.0)


def ids(queue: ChannelQueue, now: float = 1e9) -> list[str]:
    """What would be sent, one after the other."""
    sent = []
    while heads := queue.heads(1):
        sent.append(heads[0].message.id)
        queue.delivered(now, heads)
    return sent


def test_messages_are_sent_in_their_order_and_each_once() -> None:
    queue = ChannelQueue(SITE_PACE)
    for number in (1, 2, 1, 3):
        assert queue.put(message(number)) is None
    assert ids(queue) == ["1", "2", "3"]


def test_where_there_is_no_room_the_oldest_goes_but_for_the_one_that_is_tried() -> None:
    queue = ChannelQueue(Pace(most_waiting=3, burst=9, interval_s=0.0))
    dropped = [queue.put(message(number)) for number in range(6)]
    assert [None if one is None else one.message.id for one in dropped] == [None, None, None, "1", "2", "3"]
    assert (queue.dropped, ids(queue)) == (3, ["0", "4", "5"])


def test_pauses_double_up_to_a_limit_and_end_with_a_delivery() -> None:
    queue = ChannelQueue(SITE_PACE)
    queue.put(message(1))
    pauses = []
    for _ in range(12):
        queue.failed(100.0, 0.0)
        pauses.append((queue.due_at(100.0) or 0) - 100.0)
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, *[LONGEST_PAUSE_S] * 3]
    queue.put(message(2))
    queue.delivered(100.0, queue.heads(1))
    assert (queue.due_at(100.0), queue.failures) == (100.0, 0)


def test_a_message_is_given_up_after_so_many_tries_or_so_long_and_the_next_is_tried() -> None:
    queue = ChannelQueue(SITE_PACE)
    queue.put(message(1))
    queue.put(message(2))
    assert [queue.failed(0.0, 0.0) for _ in range(MOST_TRIES)] == [*[False] * (MOST_TRIES - 1), True]
    assert queue.failed(0.0, LONGEST_S)
    assert len(queue) == 0


def test_messages_of_one_group_and_type_that_follow_each_other_are_told_as_one() -> None:
    queue = ChannelQueue(SITE_PACE)
    groups = [("a", "info"), ("a", "info"), ("a", "success"), ("a", "info"), ("", "info"), ("", "info")]
    for number, (group, type_) in enumerate(groups):
        queue.put(message(number, group, type_))
    told = []
    while heads := queue.heads(20):
        told.append([one.message.id for one in heads])
        queue.delivered(0.0, heads)
    assert told == [["0", "1"], ["2"], ["3"], ["4"], ["5"]]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=80))
def test_a_user_never_gets_more_than_a_burst_and_one_each_interval(gaps: list[float]) -> None:
    queue, now, sent = ChannelQueue(USER_PACE), 0.0, []
    for number, gap in enumerate(gaps):
        now += gap
        queue.put(message(number))
        while (due := queue.due_at(now)) is not None and due <= now:
            queue.delivered(now, queue.heads(1))
            sent.append(now)
    for start in sent:
        within = [at for at in sent if start <= at <= start + 300.0]
        assert len(within) <= USER_PACE.burst + 300.0 / USER_PACE.interval_s + 1
    if len(queue):
        last = queue.due_at(now)
        assert last is not None
        assert last <= now + USER_PACE.interval_s
