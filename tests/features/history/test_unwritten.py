"""What waits while nothing can be written is bounded, and the oldest of it goes."""

from corral.features.history.recording.readings import JobPart, NewReadings
from corral.features.history.recording.series import DeviceReadings
from corral.features.history.recording.unwritten import MOST_WAITING, Unwritten


def at(second: int) -> NewReadings:
    """A device's reading, and one of each of three jobs that share it."""
    reading = DeviceReadings(float(second), 1.0, (50,))
    jobs = [(JobPart(100 * number, 1, 0), reading) for number in range(3)]
    return NewReadings([("a", reading)], jobs)


def test_the_oldest_readings_go_where_too_many_wait() -> None:
    waiting = Unwritten()
    seconds = MOST_WAITING
    for second in range(seconds):
        waiting.add(at(second), devices=1)
    count = len(waiting.named["a"]) + sum(map(len, waiting.jobs.values()))
    assert MOST_WAITING // 2 <= count <= MOST_WAITING
    assert waiting.named["a"][-1].at == seconds - 1
    assert waiting.named["a"][0].at > seconds / 2


def test_it_is_told_in_time_that_much_waits_and_after_writing_no_more() -> None:
    waiting = Unwritten()
    told = [waiting.add(at(second), devices=1) for second in range(MOST_WAITING // 4)]
    assert told.index(True) == MOST_WAITING // 8
    for key in [*waiting.named, *waiting.jobs]:
        waiting.done(key)
    assert not waiting.add(at(0), devices=1)
