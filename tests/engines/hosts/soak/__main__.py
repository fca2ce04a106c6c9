"""Soak of hosts by SSH: `python -m tests.engines.hosts.soak JOBS [SEED]`. Eight hosts are killed and cut off in it."""

import random
import sys

from tests.engines.hosts.soak.life import HostsLife
from tests.hosts_lab.lab import why_no_lab

HOSTS = 8
PATIENCE_S = 600.0


def main(words: list[str]) -> int:
    """Run it with so many jobs; 0 where all holds, and where no hosts can be made."""
    lacking = why_no_lab()
    if lacking is not None:
        print(f"soak of hosts by SSH skipped: {lacking}")
        return 0
    jobs = int(words[0]) if words else 1000
    seed = int(words[1]) if len(words) > 1 else random.randrange(10**6)
    print(f"soak of {HOSTS} hosts by SSH with {jobs} jobs, seed {seed}", flush=True)
    life = HostsLife(seed, hosts=HOSTS, jobs=jobs, patience_s=PATIENCE_S)
    broken = life.live(faults=max(10, jobs // 8))
    print(f"faults: {dict(life.events)}; jobs: {dict(life.ended)}")
    print("\n".join(broken) if broken else "every promise was kept")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
