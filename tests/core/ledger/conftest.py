from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.ledger.store import SqlLedger, open_ledger
from corral.features.feature_list import slices
from tests.core.ledger.making import url_of


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    opened = open_ledger(url_of(tmp_path), slices=slices())
    yield opened
    opened.close()
