from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.features.all_slices import SLICES
from corral.ledger.store import SqlLedger, open_ledger
from tests.ledger.making import url_of


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    opened = open_ledger(url_of(tmp_path), slices=SLICES)
    yield opened
    opened.close()
