"""News that wait to be asked for: what the reader did not take is kept, and what it took is not told again."""

import threading
import time

from corral.clock import ManualClock
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.ports.node import ServiceLost
from corral.host.node.news import NewsBuffer

NODE = Node("n", (Device("a", 0, "A100", 81920), Device("b", 1, "A100", 81920)), 8000, 1024)


def samples(at: float) -> list[DeviceSample]:
    return [DeviceSample("a", at), DeviceSample("b", at)]


def test_zero_asks_for_all_there_is() -> None:
    buffer = NewsBuffer(ManualClock(5.0))
    buffer.sampled(NODE, samples(1.0))
    buffer.sampled(None, samples(2.0))
    news = buffer.since(0, 0.0)
    assert (news.node, news.now) == (NODE, 5.0)
    assert [sample.taken_at for sample in news.samples] == [2.0, 2.0]


def test_what_the_reader_has_is_not_told_again() -> None:
    buffer = NewsBuffer(ManualClock())
    buffer.sampled(NODE, samples(1.0))
    buffer.launch_changed("4.1")
    first = buffer.since(0, 0.0)
    again = buffer.since(first.sequence, 0.0)
    assert (again.node, again.samples, again.launches) == (None, (), ())
    assert (again.sequence, again.epoch) == (first.sequence, first.epoch)


def test_an_answer_that_got_lost_can_be_asked_for_again() -> None:
    buffer = NewsBuffer(ManualClock())
    buffer.launch_changed("4.1")
    lost = ServiceLost("a", "it was killed", ("4.1",))
    buffer.service_lost(lost)
    assert buffer.since(0, 0.0) == buffer.since(0, 0.0)
    assert buffer.since(0, 0.0).launches == ("4.1",)
    assert buffer.since(0, 0.0).services_lost == (lost,)


def test_samples_of_devices_that_left_are_dropped() -> None:
    buffer = NewsBuffer(ManualClock())
    buffer.sampled(NODE, samples(1.0))
    buffer.sampled(Node("n", NODE.devices[:1], 8000, 1024), samples(2.0)[:1])
    assert [sample.uuid for sample in buffer.since(0, 0.0).samples] == ["a"]


def test_a_reader_waits_until_there_is_something() -> None:
    buffer = NewsBuffer(ManualClock())
    threading.Timer(0.05, buffer.launch_changed, ["4.1"]).start()
    assert buffer.since(0, 60.0).launches == ("4.1",)


def test_a_reader_waits_no_longer_than_it_said_and_not_at_all_once_it_is_closed() -> None:
    buffer = NewsBuffer(ManualClock())
    assert buffer.since(0, 0.01).sequence == 0
    buffer.close()
    began = time.monotonic()
    buffer.since(0, 60.0)
    assert time.monotonic() - began < 30.0


def test_two_agents_have_different_epochs() -> None:
    assert NewsBuffer(ManualClock()).since(0, 0.0).epoch != NewsBuffer(ManualClock()).since(0, 0.0).epoch
