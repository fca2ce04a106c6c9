"""Node labels for versions of driver and CUDA. They are apart from nodes, which take longer to import."""

VERSION_LABELS = ("driver-version", "cuda-major-version", "cuda-minor-version")
"""Labels that every node has if its versions are known; a site cannot set them."""
