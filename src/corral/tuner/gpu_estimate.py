"""The GPUs that one combination of parameters needs, by the formula of `corral.gpu`, for other programs."""

from corral.gpu.requirements import GpuEstimate, gpu_estimate

__all__ = ["GpuEstimate", "gpu_estimate"]
