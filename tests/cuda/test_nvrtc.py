"""CUDA's own compiler takes the kernels, for real GPUs, and fuses and flushes nothing."""

from __future__ import annotations

import re

import pytest
from tests.support import nvrtc
from tests.support.cuda import plain_kernels

from napari_decant.engine.cuda._compile import OPTIONS, compile_kernel, kernel_source
from napari_decant.errors import DeviceUnavailable

CONVERTING = ["gather<f64, f16>", "gather<i64, u8>", "nearest<u8, f64, f32>", "linear<i16, f32, b8>"]


@pytest.fixture(scope="module")
def compiler():
    library = nvrtc.find()
    if library is None:
        pytest.skip("NVRTC is not here; install the group gpu-test to compile for real GPUs")
    return nvrtc.Nvrtc(library)


@pytest.mark.parametrize("expression", ["gather<u16, u16>", "nearest<u8, f64, f32>", "linear<u16, f32, u16>"])
def test_gpus_of_every_supported_generation_get_machine_code(compiler, expression):
    known = compiler.getSupportedArchs()
    for capability in sorted({75, 80, 90, 120}.intersection(known)):
        binary, name = compile_kernel(compiler, expression, capability)
        assert binary.startswith(b"\x7fELF")
        assert name.encode() in binary
        assert re.match(rf"_Z\d+{expression.split('<')[0]}", name)


def test_a_gpu_newer_than_the_compiler_gets_ptx_and_an_older_one_a_reason(compiler):
    known = compiler.getSupportedArchs()
    binary, name = compile_kernel(compiler, "gather<u8, u8>", max(known) + 10)
    assert f".target sm_{max(known)}".encode() in binary
    assert f".entry {name}".encode() in binary
    with pytest.raises(DeviceUnavailable, match=r"no code for GPUs of compute capability 1\.0"):
        compile_kernel(compiler, "gather<u8, u8>", 10)


def test_a_kernel_that_does_not_compile_says_why(compiler):
    with pytest.raises(DeviceUnavailable, match=r"(?s)gather<u8, nothing> does not compile: .*nothing"):
        compile_kernel(compiler, "gather<u8, nothing>", 90)


def test_no_kernel_fuses_or_flushes(compiler):
    program = compiler.createProgram(kernel_source(), "all.cu", [], [])
    for expression in [*plain_kernels(), *CONVERTING]:
        compiler.addNameExpression(program, expression)
    compiler.compileProgram(program, ("--gpu-architecture=compute_80", *OPTIONS))
    code = compiler.getPTX(program).decode()
    compiler.destroyProgram(program)
    assert code.count(".entry") == len(plain_kernels()) + len(CONVERTING)
    assert re.search(r"\bmul\.rn\.f64\b", code)  # ".rn" keeps the assembler from fusing it later
    assert not re.search(r"\b(fma|mad)(\.rn|\.rz)?(\.ftz)?\.f(32|64)\b", code)
    assert ".ftz" not in code
    assert not re.search(r"\b(mul|add|sub)(\.ftz)?\.f(32|64)\b", code)


def test_without_the_option_the_compiler_would_fuse(compiler):
    program = compiler.createProgram(kernel_source(), "fused.cu", [], [])
    compiler.addNameExpression(program, "linear<u16, f32, u16>")
    options = [option for option in OPTIONS if option != "--fmad=false"]
    compiler.compileProgram(program, ("--gpu-architecture=compute_80", *options))
    assert re.search(r"\bfma\.rn\.f64\b", compiler.getPTX(program).decode())
    compiler.destroyProgram(program)
