import pytest

from tests.engines.kubernetes.chart.helm import find
from tests.engines.kubernetes.engine.conftest import site

__all__ = ["site"]


def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = [name for name in ("helm", "kubectl") if find(name) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)}: .ci/unpack-helm .venv/helm puts them where tests look")
