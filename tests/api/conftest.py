import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.api import server
from tests.api.world import PATIENCE_S, Served, World


@pytest.fixture(autouse=True)
def _patient_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stops breaks off no answer, however long this machine takes over it."""
    monkeypatch.setattr(server, "GRACE_S", PATIENCE_S)


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory with a short path that every user may enter."""
    root = Path(tempfile.mkdtemp(prefix="corral-"))
    root.chmod(0o711)
    yield root
    shutil.rmtree(root)


@pytest.fixture
def world(home: Path) -> Iterator[World]:
    world = World(home)
    yield world
    world.close()


@pytest.fixture
def served(world: World) -> Iterator[Served]:
    served = Served(world)
    yield served
    served.stop()
