"""Authenticates a member and the script's side to each other when they connect.

Both have the launch's secret in their environment, which only the job's user can read. They prove that they know it
without sending it.
"""

import hashlib
import hmac
import os

from .channel import RANK, Broken

NONCE_BYTES = 16
PROOF_BYTES = 32
HELLO_BYTES = RANK.size + NONCE_BYTES + PROOF_BYTES


def _proof(secret: str, who: bytes, *parts: bytes) -> bytes:
    return hmac.new(secret.encode(), b"|".join((who, *parts)), hashlib.sha256).digest()


def hello(secret: str, rank: int, theirs: bytes) -> tuple[bytes, bytes]:
    """Return a member's answer to the nonce `theirs`, and the reply that it expects."""
    number, own = RANK.pack(rank), os.urandom(NONCE_BYTES)
    return number + own + _proof(secret, b"member", number, own, theirs), _proof(secret, b"script", own, theirs)


def welcome(secret: str, own: bytes, said: bytes) -> tuple[int, bytes]:
    """Return the rank of the member that answered the nonce `own`, and the reply to it. Raises Broken."""
    number, theirs = said[: RANK.size], said[RANK.size : -PROOF_BYTES]
    if not hmac.compare_digest(said[-PROOF_BYTES:], _proof(secret, b"member", number, theirs, own)):
        raise Broken("a member that does not know the secret of the launch")
    return RANK.unpack(number)[0], _proof(secret, b"script", theirs, own)
