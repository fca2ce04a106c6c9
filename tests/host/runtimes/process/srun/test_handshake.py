"""Neither side takes the other for what it is not."""

import socket

import pytest

from corral.host.runtimes.process.srun import channel
from corral.host.runtimes.process.srun.channel import Broken, Frames
from corral.host.runtimes.process.srun.handshake import HELLO_BYTES, NONCE_BYTES, hello, welcome

NONCE = b"n" * NONCE_BYTES


def test_a_member_and_the_script_of_one_launch_know_each_other() -> None:
    said, expected = hello("hush", 3, NONCE)
    assert len(said) == HELLO_BYTES
    assert welcome("hush", NONCE, said) == (3, expected)


def test_who_does_not_know_the_secret_is_not_let_in_nor_believed() -> None:
    said, expected = hello("guess", 3, NONCE)
    with pytest.raises(Broken):
        welcome("hush", NONCE, said)
    assert welcome("guess", NONCE, said)[1] != hello("hush", 3, NONCE)[1]
    assert expected != hello("hush", 3, NONCE)[1]


def test_what_was_said_once_is_good_for_no_other_meeting_and_no_other_rank() -> None:
    said, _ = hello("hush", 3, NONCE)
    with pytest.raises(Broken):
        welcome("hush", b"m" * NONCE_BYTES, said)
    with pytest.raises(Broken):
        welcome("hush", NONCE, channel.RANK.pack(4) + said[channel.RANK.size :])


def test_frames_come_whole_in_whatever_pieces_they_arrive() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames = Frames(theirs)
        ours.sendall(b"O\0\0\0\x07\0\0\0")
        assert list(frames.read()) == []
        ours.sendall(b"\x02\x01hiS\0\0\0\0")
        (output, step) = frames.read()
        assert channel.heard(output[1]) == (2, 1, b"hi")
        assert step == (channel.STEP, b"")


def test_a_frame_that_nobody_sends_ends_the_connection() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"O\xff\xff\xff\xff")
        with pytest.raises(Broken, match="too long"):
            list(Frames(theirs).read())
