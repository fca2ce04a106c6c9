"""The digest of a token's secret. Only the digest is stored."""

from hashlib import sha256


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a secret; only this is stored. 256 random bits need no salt."""
    return sha256(secret.encode(errors="surrogateescape")).hexdigest()
