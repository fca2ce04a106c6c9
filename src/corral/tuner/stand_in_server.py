"""`python -m corral.tuner.stand_in_server`: the name by which jobs of earlier versions start their stand-in."""

import sys

from corral.features.tuner.engines.stand_in_server import main

if __name__ == "__main__":
    main(sys.argv[1:])
