"""`python -m corral.runtimes.docker.runner`: the name by which launches of earlier versions start their runner."""

import sys

from corral.host.runtimes.docker.runner import main

if __name__ == "__main__":
    sys.exit(main())
