"""One round of serving descriptors, for all programs of this package."""

import selectors


def serve(selector: selectors.BaseSelector, timeout_s: float | None) -> None:
    """Wait for what is ready and call its data; what an earlier call of the round has let go of is not called."""
    for key, _ in selector.select(timeout_s):
        if selector.get_map().get(key.fd) is key:
            key.data()
