import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.engines.kubernetes.assets import find_program
from tests.engines.kubernetes.control_plane import Processes
from tests.engines.kubernetes.soak.soak import Soak

PATIENCE_S = 600.0


def main(words: list[str]) -> int:
    """Run it with so many pods; 0 where all holds, and where there is no API server to try."""
    missing = [name for name in ("kube-apiserver", "etcd") if find_program(name) is None]
    if missing:
        print(f"soak of Kubernetes skipped: no {' and no '.join(missing)}; set KUBEBUILDER_ASSETS")
        return 0
    pods = int(words[0]) if words else 2000
    seed = int(words[1]) if len(words) > 1 else random.randrange(10**6)
    print(f"soak of Kubernetes with {pods} pods, seed {seed}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="corral-soak-"))
    processes = Processes(directory / "control-plane")
    try:
        processes.start()
        soak = Soak(directory, processes, pods, seed, patience_s=PATIENCE_S, to_the_last=True)
        soak.run()
    finally:
        processes.stop()
    print("\n".join(soak.summary()))
    if not all(claim.holds for claim in soak.claims):
        print(f"what the server and the API server have written is in {directory}")
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
