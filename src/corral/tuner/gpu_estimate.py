"""The GPUs that one combination of parameters needs, for other programs."""

from corral.features.tuner.engines.gpu_estimate import GpuEstimate, gpu_estimate

__all__ = ["GpuEstimate", "gpu_estimate"]
