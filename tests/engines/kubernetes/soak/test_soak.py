from pathlib import Path

import pytest

from tests.engines.kubernetes.control_plane import Processes
from tests.engines.kubernetes.soak.soak import Soak

pytestmark = pytest.mark.long

PODS, SEED = 150, 20
"""So few that each kind of fault comes at least once; `make soak` has 2,000."""
PATIENCE_S = 150.0


@pytest.mark.timeout(900)  # a busy machine takes several times as long as others
def test_what_comes_during_faults_is_placed_once_and_ends(
    own_control_plane: Processes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    soak = Soak(tmp_path, own_control_plane, PODS, SEED, patience_s=PATIENCE_S, to_the_last=False)
    soak.run()
    said = "\n".join(soak.summary())
    with capsys.disabled():
        print(f"\n{said}")
    assert all(claim.holds for claim in soak.claims), said
