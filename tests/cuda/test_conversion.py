"""Element types are converted on a GPU as they are on the CPU."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from tests.support.cuda import CPU, held, plan_of, rewritten, same_bytes, turned, values
from tests.support.engine import crop, files_of

from napari_decant.engine._convert import convert_into
from napari_decant.engine.cuda._compile import kernel_source
from napari_decant.engine.cuda._types import TOKENS
from napari_decant.errors import DeviceUnavailable, UnsupportedOperation

PAIRS = [(a, b) for a in TOKENS for b in TOKENS if not (a.kind == "c" and b.kind != "c")]
EACH = """
template <class S, class T> static void each(unsigned n, const u64 *given)
{
    for (unsigned k = 0; k < n; ++k) {
        ((T *)given[1])[k] = convert<T>(((const S *)given[0])[k]);
    }
}
"""


@pytest.fixture(scope="module")
def convert(compiler):
    """A function that converts an array as the kernels do."""
    entries = [
        f'extern "C" void {TOKENS[a]}_{TOKENS[b]}(unsigned n, const u64 *given)'
        f" {{ each<{TOKENS[a]}, {TOKENS[b]}>(n, given); }}\n"
        for a, b in PAIRS
    ]
    library = ctypes.CDLL(str(compiler.build(kernel_source(), [], EACH + "".join(entries))))

    def call(held, dtype):
        made = np.empty(held.shape, dtype)
        given = np.array([held.ctypes.data, made.ctypes.data], np.uint64)
        function = getattr(library, f"{TOKENS[held.dtype]}_{TOKENS[made.dtype]}")
        function.argtypes = [ctypes.c_uint, ctypes.c_void_p]
        function(held.size, given.ctypes.data)
        return made

    return call


def hard_values(dtype):
    """Ends of the ranges of all types, ties, and what is no number."""
    if dtype.kind == "b":
        return np.array([True, False])
    edges = [0, 1, 2, 3, 127, 128, 129, 255, 256, 32767, 32768, 65504, 65519, 65520, 65535, 65536]
    edges += [2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
    edges += [-edge for edge in edges]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([edge for edge in edges if limits.min <= edge <= limits.max], dtype)
    with np.errstate(over="ignore"):
        wide = np.array([*edges, 1e300, -1e300, np.inf, -np.inf, np.nan, 1e-300, -1e-300], np.float64)
        halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 254.5, 255.5, 32767.5, 65534.5, -128.5, 0.49999997])
        small = np.array([2.0**-14, 2.0**-24, 2.0**-25, 1.5 * 2.0**-24, 2.0**-26, 2.0**-126, 1e-45])
        return np.concatenate([wide, halves, small]).astype(dtype)


@pytest.mark.parametrize("source", TOKENS, ids=str)
def test_every_type_to_every_type(convert, source):
    for target in TOKENS:
        if (source, target) not in PAIRS:
            continue
        held = hard_values(source)
        wanted = np.empty(held.shape, target)
        with np.errstate(all="ignore"):
            convert_into(held, wanted)
        found = convert(held, target)
        np.testing.assert_array_equal(found, wanted, f"{source} to {target}")
        if target.kind in "fc":
            numbers = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(found.real[numbers]), np.signbit(wanted.real[numbers]))


def test_half_floats_round_as_numpy_rounds(convert):
    every = np.arange(1 << 16, dtype="u2").view("f2")
    wide = convert(every, "f8")
    np.testing.assert_array_equal(wide, every.astype("f8"))
    finite = np.sort(wide[np.isfinite(wide)])
    middles = (finite[1:] + finite[:-1]) / 2
    above, below = np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)
    near = np.concatenate([middles, above, below, finite])
    same_bytes(convert(near, "f2"), near.astype("f2"))


@pytest.mark.parametrize("name", ["copy", "nearest", "linear"])
@pytest.mark.parametrize(
    ("source", "target"), [("u2", "f4"), ("i2", "u1"), ("f4", "u2"), ("f8", "f2"), ("f2", "i8"), ("i8", "f4")]
)
def test_crops_in_another_type(executor, source, target, name):
    files = files_of(values((6, 12), source), chunks=(4, 5), fill_value=3)
    del files["c/0/1"]
    image = held(files, "yx")
    resolution = crop(image, (1, 2), (4, 8)) if name == "copy" else turned(image, (4, 8), name)
    plan = plan_of(resolution)
    (found,) = executor.run(plan, dtype=target)
    (wanted,) = CPU.run(plan, dtype=target)
    assert len(np.unique(wanted)) > 1
    if name != "linear":
        same_bytes(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-3 if target == "f2" else 1e-6)


def test_a_constant_beyond_the_sources_type_reaches_an_output_that_holds_it(executor):
    image = rewritten(values((6, 6), "u1"), chunks=(4, 4))
    plan = plan_of(turned(image, (6, 6), "nearest", "constant", -2.5))
    (found,) = executor.run(plan, dtype="f4")
    assert (found == -2.5).any()
    same_bytes(found, CPU.run(plan, dtype="f4")[0])
    same_bytes(executor.run(plan)[0], CPU.run(plan)[0])


def test_complex_values_are_refused_as_real_ones(executor):
    plan = plan_of(crop(rewritten(values((4, 4), "c8")), (0, 0), (2, 2)))
    with pytest.raises(UnsupportedOperation, match="complex64"):
        executor.run(plan, dtype="f4")


def test_types_that_gpus_lack_are_refused(executor):
    plan = plan_of(crop(rewritten(values((4, 4), "u2")), (0, 0), (2, 2)))
    with pytest.raises(DeviceUnavailable, match=r"GPUs have no (longdouble|float128)"):
        executor.run(plan, dtype=np.longdouble)
