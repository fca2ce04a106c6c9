"""`python -m corral.tuner`: the name by which earlier versions start the process of a task."""

import sys

from corral.features.tuner.running.__main__ import main

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
