"""Debian's Prometheus and Alertmanager, for tests that have them judge what Corral writes for them."""

import shutil

import pytest

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="prometheus and promtool are not installed (Debian and Ubuntu: apt-get install prometheus)",
)

needs_alertmanager = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("prometheus-alertmanager")),
    reason="prometheus-alertmanager is not installed (Debian and Ubuntu: apt-get install prometheus-alertmanager)",
)
