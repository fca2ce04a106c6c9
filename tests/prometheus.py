"""Debian's Prometheus, for tests that have it judge what Corral writes for it."""

import shutil

import pytest

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="prometheus and promtool are not installed (Debian and Ubuntu: apt-get install prometheus)",
)
