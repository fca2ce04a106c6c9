"""`python -m corral.tuner.deployments.port_holder`: the name by which jobs of earlier versions hold their port."""

import sys

from corral.features.tuner.deployments.port_holder import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
