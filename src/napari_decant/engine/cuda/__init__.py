"""Executing plans on an NVIDIA GPU. cupy is imported when the first executor is made, and nowhere else."""

from __future__ import annotations

from napari_decant.engine.cuda._choose import choose_executor, cuda_problem
from napari_decant.engine.cuda._executor import CudaExecutor
from napari_decant.engine.cuda._limits import CudaLimits

__all__ = ["CudaExecutor", "CudaLimits", "choose_executor", "cuda_problem"]
