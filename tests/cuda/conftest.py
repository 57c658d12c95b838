"""GPUs that are pretended, see ``tests.support.fakecupy``; ``tests/gpu`` is for real ones."""

from __future__ import annotations

import pytest
from tests.support import fakecupy
from tests.support.cuda import SMALL, plain_kernels

from napari_decant.engine.cuda import CudaExecutor
from napari_decant.engine.cuda._compile import kernel_source


@pytest.fixture(scope="session")
def compiler(tmp_path_factory):
    """A compiler of kernels for this machine."""
    if fakecupy.COMPILER is None:
        pytest.skip("no C++ compiler is here; install g++ to test the kernels without a GPU")
    made = fakecupy.HostCompiler(tmp_path_factory.mktemp("kernels"))
    made.build(kernel_source(), plain_kernels())
    return made


@pytest.fixture(scope="module")
def executor(compiler):
    """An executor on a pretended GPU, for tests that only look at results."""
    with pytest.MonkeyPatch.context() as patch:
        gpu = fakecupy.installed(patch, compiler)
        with CudaExecutor(limits=SMALL) as made:
            made.gpu = gpu
            yield made


@pytest.fixture
def gpu(monkeypatch, compiler):
    """A pretended GPU whose work is done a little later than it is asked for."""
    return fakecupy.installed(monkeypatch, compiler, delay=0.0005)
