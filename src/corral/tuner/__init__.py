"""Public names of the autotuner, and old addresses that recorded jobs name. The feature is in `corral.features.tuner`.

Other programs import `arq`, `benchmark` and `gpu_estimate`.
"""
