"""One round of serving descriptors, for all programs of this package."""

import selectors


def serve(selector: selectors.BaseSelector, timeout_s: float | None) -> None:
    """Wait for ready descriptors and call their data, except for descriptors that an earlier call of the round has
    dropped.
    """
    for key, _ in selector.select(timeout_s):
        if selector.get_map().get(key.fd) is key:
            key.data()
