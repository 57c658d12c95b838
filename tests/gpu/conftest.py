"""Tests on a real GPU; everywhere else they are skipped, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from napari_decant.engine.cuda import CudaExecutor, CudaLimits, cuda_problem

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    mine = [item for item in items if HERE in item.path.parents]
    problem = cuda_problem() if mine else None
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if problem is not None:
            item.add_marker(pytest.mark.skip(reason=f"no GPU can be used: {problem}"))


@pytest.fixture(scope="session")
def executor():
    """An executor on the GPU of this machine."""
    limits = CudaLimits(max_memory_bytes=1 << 30, max_device_bytes=512 << 20, decode_workers=4)
    with CudaExecutor(limits=limits) as made:
        yield made
