"""Batches come in order, within memory, and one bad sample spoils no other."""

from __future__ import annotations

import gc
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import google_crc32c
import numcodecs
import numpy as np
import pytest
import zarr.codecs as zc
from tests.support.engine import crop, files_of, image_in, indexed, ramp

from napari_decant.engine import (
    BatchSpec,
    ChunkPlanner,
    CpuExecutor,
    CpuLimits,
    FileReader,
    Pipeline,
    PlanLimits,
    QueueLimits,
    ZarrMetadata,
)
from napari_decant.errors import (
    BudgetExceeded,
    Cancelled,
    FormatError,
    IntegrityError,
    SourceChanged,
    StorageError,
    UnsafeInput,
    UnsupportedOperation,
    UsageError,
)
from napari_decant.progress import CancelToken
from napari_decant.spatial import Sampler, SpatialQuery

DATA = ramp((16, 40, 48))


@pytest.fixture
def image():
    return image_in(files_of(DATA, chunks=(4, 10, 12), shards=(8, 20, 24)), "zyx")


@pytest.fixture
def executor():
    with CpuExecutor(limits=CpuLimits(max_memory_bytes=16 << 20, decode_workers=2)) as made:
        yield made


def pipeline_of(executor, shape=(4, 8, 8), samples=2, dtype="u16", lookahead=16, planner=None, **more):
    output = BatchSpec(samples, shape, dtype)
    return Pipeline(planner or ChunkPlanner(), executor, output, QueueLimits(lookahead), **more)


def counting(image):
    """Note every read of the image's store."""
    seen = []
    inside = threading.local()
    for name in ("read_file", "read_file_into"):
        plain = getattr(image.store, name)

        def read(file, offset, what, plain=plain):
            if getattr(inside, "busy", False):  # one method may be made of the other
                return plain(file, offset, what)
            seen.append((file, offset, what if isinstance(what, int) else what.nbytes))
            inside.busy = True
            try:
                return plain(file, offset, what)
            finally:
                inside.busy = False

        setattr(image.store, name, read)
    return seen


def test_batches_come_in_order_with_the_right_pixels(image, executor):
    starts = [(z, y, x) for z in (0, 3, 9) for y in (0, 11, 30) for x in (1, 22, 40)]
    with pipeline_of(executor, samples=4) as pipeline:
        seen = 0
        for batch in pipeline.map(crop(image, start, (4, 8, 8)) for start in starts):
            with batch:
                array = np.from_dlpack(batch)
                for sample in array:
                    z, y, x = starts[seen]
                    np.testing.assert_array_equal(sample, DATA[z : z + 4, y : y + 8, x : x + 8])
                    seen += 1
        assert seen == len(starts)
        stats = pipeline.stats()
    assert (stats.batches, stats.samples, stats.failed_samples) == (7, 27, 0)
    assert stats.output_bytes == 27 * 4 * 8 * 8 * 2
    assert min(stats.plan_seconds, stats.read_seconds, stats.decode_seconds) > 0


def test_a_chunk_that_samples_share_is_decoded_once_per_batch(image, executor):
    same = [crop(image, (0, 0, x), (4, 8, 8)) for x in range(4)]
    with pipeline_of(executor, samples=4) as pipeline:
        pipeline.push(same)
        pipeline.pop().release()
        stats = pipeline.stats()
    assert (stats.chunks, stats.uses) == (1, 4)
    assert stats.reuse == 4


def test_touching_ranges_are_one_read(image, executor):
    plan = ChunkPlanner().plan([crop(image, (0, 0, 0), (4, 20, 24))])
    seen = counting(image)
    (found,) = executor.run(plan)
    np.testing.assert_array_equal(found, DATA[:4, :20, :24])
    assert plan.summary.chunks == 4
    assert len(seen) == 1


def test_reads_of_different_shards_alternate(image):
    plan = ChunkPlanner().plan([crop(image, (0, 0, 0), (8, 10, 48))])
    reader = FileReader(workers=1, max_gap_bytes=0)
    with CpuExecutor(reader=reader, limits=CpuLimits(decode_workers=1)) as single:
        seen = counting(image)
        single.run(plan)
    assert plan.summary.chunks == 8
    assert [file for file, _, _ in seen] == ["c/0/0/0", "c/0/0/1"] * 2


def test_a_plan_says_what_it_costs_before_anything_is_read(image):
    seen = counting(image)
    plan = ChunkPlanner().plan([crop(image, (2, 5, 6), (4, 20, 20)), crop(image, (2, 5, 6), (4, 20, 20))])
    assert all(length == 8 * 16 + 4 for _, _, length in seen), "only shard indexes are read"
    assert plan.summary.chunks == 18
    assert plan.summary.uses == 36
    assert plan.summary.decoded_bytes == plan.summary.stored_bytes == 18 * 4 * 10 * 12 * 2
    assert plan.summary.exact
    assert plan.describe()["chunks"] == 18
    again = pickle.loads(pickle.dumps(plan))
    np.testing.assert_array_equal(again.chunk_offset, plan.chunk_offset)


def test_absent_chunks_cost_no_read_and_are_fill(executor):
    files = files_of(DATA, chunks=(4, 10, 12), fill_value=7)
    del files["c/0/0/0"]
    image = image_in(files, "zyx")
    plan = ChunkPlanner().plan([crop(image, (0, 0, 0), (4, 10, 24))])
    assert (plan.summary.chunks, plan.summary.absent_chunks) == (2, 1)
    (found,) = executor.run(plan)
    assert (found[:, :, :12] == 7).all()
    np.testing.assert_array_equal(found[:, :, 12:], DATA[:4, :10, 12:24])


def test_one_damaged_chunk_fails_its_samples_only(executor):
    files = files_of(DATA, chunks=(4, 10, 12), compressors=[zc.ZstdCodec(level=1), zc.Crc32cCodec()])
    bad = bytearray(files["c/0/0/0"])
    bad[9] ^= 1
    image = image_in(files | {"c/0/0/0": bytes(bad)}, "zyx")
    good, hurt = crop(image, (4, 10, 12), (4, 8, 8)), crop(image, (0, 0, 0), (4, 8, 8))
    with pipeline_of(executor, samples=3) as pipeline:
        pipeline.push([good, hurt, good])
        with pipeline.pop() as batch:
            assert [error is not None for error in batch.errors] == [False, True, False]
            assert isinstance(batch.errors[1], IntegrityError)
            assert "chunk 0/0/0" in str(batch.errors[1])
            np.testing.assert_array_equal(batch.sample(0), DATA[4:8, 10:18, 12:20])
            np.testing.assert_array_equal(batch.sample(2), batch.sample(0))
            for access in (lambda: batch.array, lambda: np.from_dlpack(batch), lambda: batch.sample(1)):
                with pytest.raises(IntegrityError):
                    access()
        pipeline.push([good] * 3)  # and the pipeline goes on
        with pipeline.pop() as batch:
            assert batch.array.shape == (3, 4, 8, 8)
        assert pipeline.stats().failed_samples == 1


def test_a_damaged_chunk_under_a_tile_fails_and_does_not_hang(executor):
    files = files_of(DATA, chunks=(4, 10, 12), compressors=zc.ZstdCodec(level=1))
    image = image_in(files | {"c/1/1/1": files["c/1/1/1"][:-5]}, "zyx")
    turned = SpatialQuery([[1, 0.1, 0, 3], [0, 1, 0.1, 9], [0, 0, 1, 10]], Sampler("linear", "clamp"), 0)
    with pytest.raises(FormatError, match="chunk 1/1/1"):
        executor.run(ChunkPlanner().plan([turned.resolve(image, (4, 8, 8))]))


def test_each_kind_of_bad_shard_has_its_own_error(executor):
    files = files_of(DATA, chunks=(4, 10, 12), shards=(8, 20, 24))
    shard = files["c/0/0/0"]
    index = bytearray(shard[-132:])
    index[0:8] = (2**40).to_bytes(8, "little")
    index[-4:] = google_crc32c.value(bytes(index[:-4])).to_bytes(4, "little")
    flipped = bytearray(shard)
    flipped[-20] ^= 1
    for bad, error, match in (
        (shard[:50], FormatError, "cut short"),
        (shard[: len(shard) // 2], IntegrityError, "checksum"),
        (bytes(flipped), IntegrityError, "checksum"),
        (shard[:-132] + bytes(index), FormatError, "past the end"),
    ):
        image = image_in(files | {"c/0/0/0": bad}, "zyx")
        good, hurt = crop(image, (8, 20, 24), (4, 8, 8)), crop(image, (0, 0, 0), (4, 8, 8))
        with pytest.raises(error, match=match):
            ChunkPlanner().plan([hurt])
        with pipeline_of(executor) as pipeline:
            pipeline.push([hurt, good])
            with pipeline.pop() as batch:
                assert type(batch.errors[0]) is error
                np.testing.assert_array_equal(batch.sample(1), DATA[8:12, 20:28, 24:32])


def test_a_store_that_changes_underneath_is_told_from_a_damaged_one(executor):
    files = files_of(DATA, chunks=(4, 10, 12), compressors=zc.ZstdCodec(level=1))
    image = image_in(files, "zyx")
    plan = ChunkPlanner().plan([crop(image, (0, 0, 0), (4, 10, 12))])
    image.store._data["c/0/0/0"] = files["c/1/1/1"][: len(files["c/0/0/0"]) - 7]
    with pytest.raises(SourceChanged, match="moved or changed"):
        executor.run(plan)

    sharded = image_in(
        files_of(DATA, chunks=(4, 10, 12), shards=(8, 20, 24), compressors=zc.ZstdCodec()), "zyx"
    )
    other = files_of(
        DATA[::-1] * 3, chunks=(4, 10, 12), shards=(8, 20, 24), compressors=zc.ZstdCodec(level=9)
    )
    planner = ChunkPlanner(ZarrMetadata())
    last = crop(sharded, (4, 10, 12), (4, 8, 8))
    with pipeline_of(executor, samples=1, planner=planner) as pipeline:
        pipeline.push([last])
        pipeline.pop().release()
        sharded.store._data["c/0/0/0"] = other["c/0/0/0"]
        pipeline.push([last])
        with pipeline.pop() as batch:
            assert isinstance(batch.errors[0], SourceChanged)
        pipeline.push([last])  # the stale index was dropped
        with pipeline.pop() as batch:
            np.testing.assert_array_equal(batch.array[0], (DATA[::-1] * 3)[4:8, 10:18, 12:20])


def test_a_store_that_vanishes_is_a_storage_error(executor):
    image = image_in(files_of(DATA, chunks=(4, 10, 12)), "zyx")
    plan = ChunkPlanner().plan([crop(image, (0, 0, 0), (4, 10, 24))])
    image.store.close()
    with pytest.raises(StorageError, match="closed"):
        executor.run(plan)


def test_chunks_larger_than_any_encoding_are_not_even_read(executor):
    files = files_of(DATA, chunks=(4, 10, 12), compressors=zc.ZstdCodec(level=1))
    image = image_in(files | {"c/0/0/0": bytes(4 << 20)}, "zyx")
    plan = ChunkPlanner().plan([crop(image, (0, 0, 0), (4, 10, 12))])
    seen = counting(image)
    with pytest.raises(FormatError, match="at most"):
        executor.run(plan)
    assert seen == []


def test_codecs_off_the_list_are_refused_before_planning():
    files = files_of(DATA, chunks=(4, 10, 12))
    files["zarr.json"] = files["zarr.json"].replace(b'"bytes"', b'"numcodecs.pickle"')
    with pytest.raises(UnsafeInput, match="run code"):
        image_in(files, "zyx")


@pytest.mark.parametrize(
    ("limits", "knob"),
    [
        (PlanLimits(max_chunks=3), "max_chunks"),
        (PlanLimits(max_stored_bytes=1000), "max_stored_bytes"),
        (PlanLimits(max_decoded_bytes=1000), "max_decoded_bytes"),
        (PlanLimits(max_index_bytes=100), "max_index_bytes"),
    ],
)
def test_plan_limits_refuse_up_front_and_name_the_knob(image, limits, knob):
    with pytest.raises(BudgetExceeded, match=knob) as caught:
        ChunkPlanner(limits=limits).plan([crop(image, (2, 5, 6), (4, 20, 20))])
    assert caught.value.knob == knob
    assert caught.value.need > caught.value.limit


def test_a_sample_beyond_a_plan_limit_does_not_take_the_batch_with_it(image, executor):
    planner = ChunkPlanner(limits=PlanLimits(max_chunks=5))
    small, large = crop(image, (0, 0, 0), (4, 8, 8)), crop(image, (2, 5, 6), (4, 8, 8))
    with pipeline_of(executor, planner=planner) as pipeline:
        pipeline.push([small, large])
        with pipeline.pop() as batch:
            assert batch.errors[0] is None
            assert isinstance(batch.errors[1], BudgetExceeded)
            np.testing.assert_array_equal(batch.sample(0), DATA[:4, :8, :8])


def test_memory_limits_refuse_up_front(image):
    with CpuExecutor(limits=CpuLimits(max_memory_bytes=4000, decode_workers=1)) as tiny:
        with pytest.raises(BudgetExceeded, match="max_memory_bytes allows 4,000"):
            tiny.run(ChunkPlanner().plan([crop(image, (0, 0, 0), (16, 40, 48))]))
        with pytest.raises(BudgetExceeded, match="one batch"):
            pipeline_of(tiny, shape=(16, 40, 48))
        turned = SpatialQuery([[1, 0.5, 0, 3], [0, 1, 0.5, 9], [0, 0, 1, 10]], Sampler("linear", "clamp"), 0)
        with pytest.raises(BudgetExceeded, match="under one tile"):
            tiny.run(ChunkPlanner().plan([turned.resolve(image, (4, 8, 8))]))
    with pytest.raises(BudgetExceeded, match="lookahead_samples"):
        pipeline_of(tiny, samples=4, lookahead=3)
    assert tiny.memory.used == 0


def test_batches_that_are_not_released_do_not_hang_the_next(image):
    size = 2 * 4 * 8 * 8 * 2
    with (
        CpuExecutor(limits=CpuLimits(max_memory_bytes=size * 2 + 4000, decode_workers=1)) as executor,
        pipeline_of(executor) as pipeline,
    ):
        samples = [crop(image, (0, 0, 0), (4, 8, 8))] * 2
        held = []

        def take_all():
            for _ in range(12):
                pipeline.push(samples)
                held.append(pipeline.pop())

        with pytest.raises(BudgetExceeded, match="not released"):
            take_all()
        assert held
        held.pop().release()
        pipeline.pop().release()  # what was waiting goes on


def test_batches_too_large_together_are_made_one_by_one(executor):
    image = image_in(files_of(DATA, chunks=(16, 40, 48), compressors=zc.ZstdCodec(level=1)), "zyx")
    turned = SpatialQuery([[1, 0.1, 0, 2], [0, 1, 0.1, 4], [0, 0, 1, 3]], Sampler("linear", "clamp"), 0)
    sample = turned.resolve(image, (8, 32, 32))
    (expected,) = executor.run(ChunkPlanner().plan([sample]))
    limit = 3 * DATA.nbytes + 4 * 16384  # one chunk under a tile, one being decoded, its bytes; few outputs
    with (
        CpuExecutor(limits=CpuLimits(max_memory_bytes=limit, decode_workers=1)) as small,
        pipeline_of(small, shape=(8, 32, 32), samples=1) as pipeline,
    ):
        for batch in pipeline.map([sample] * 12):
            with batch:
                np.testing.assert_array_equal(batch.array[0], expected)
    assert small.memory.used == 0


def test_released_memory_is_used_again_but_never_under_a_kept_array(image, executor):
    with pipeline_of(executor) as pipeline:
        pipeline.push([crop(image, (0, 0, 0), (4, 8, 8))] * 2)
        with pipeline.pop() as batch:
            kept = np.from_dlpack(batch)
            first = batch.array.ctypes.data
        for start in ((4, 0, 0), (8, 10, 0)):
            pipeline.push([crop(image, start, (4, 8, 8))] * 2)
            with pipeline.pop() as batch:
                assert batch.array.ctypes.data != first
        np.testing.assert_array_equal(kept[0], DATA[:4, :8, :8])
        del kept
        gc.collect()


def test_a_released_batch_gives_nothing_more(image, executor):
    with pipeline_of(executor) as pipeline:
        pipeline.push([crop(image, (0, 0, 0), (4, 8, 8))] * 2)
        batch = pipeline.pop()
        assert len(batch) == 2
        assert "(2, 4, 8, 8)" in repr(batch)
        assert np.asarray(batch, dtype="f4").dtype == np.float32
        batch.release()
        batch.release()
        with pytest.raises(UsageError, match="released"):
            _ = batch.array
    assert executor.memory.used == 0


def test_push_says_how_many_fit_and_pop_makes_room(image, executor):
    sample = crop(image, (0, 0, 0), (4, 8, 8))
    with pipeline_of(executor, lookahead=4) as pipeline:
        assert pipeline.push([sample] * 7) == 4
        assert pipeline.push([sample] * 3) == 0
        began = time.monotonic()
        assert pipeline.push([sample], timeout=0.1) == 0
        assert time.monotonic() - began >= 0.09
        pipeline.pop().release()
        assert pipeline.push([sample] * 3) == 2


def test_a_pop_with_nothing_on_its_way_says_so(image, executor):
    with pipeline_of(executor) as pipeline:
        with pytest.raises(UsageError, match="no batch is on its way"):
            pipeline.pop()
        pipeline.push([crop(image, (0, 0, 0), (4, 8, 8))])
        with pytest.raises(UsageError, match="1 samples do not fill one"):
            pipeline.pop()
        with pytest.raises(TimeoutError):
            pipeline.pop(timeout=0.05)
        pipeline.flush()
        with pipeline.pop() as batch:
            assert batch.array.shape == (1, 4, 8, 8)
    with pytest.raises(UsageError, match="closed"):
        pipeline.pop()


def test_one_thread_may_push_while_another_pops(image, executor):
    starts = [(i % 12, i % 30, i % 40) for i in range(60)]
    with pipeline_of(executor, lookahead=4) as pipeline:

        def feed():
            for start in starts:
                while not pipeline.push([crop(image, start, (4, 8, 8))], timeout=5):
                    pass

        feeder = threading.Thread(target=feed)
        feeder.start()
        for i in range(0, 60, 2):
            with pipeline.pop(timeout=10) as batch:
                for start, sample in zip(starts[i : i + 2], batch.array, strict=True):
                    z, y, x = start
                    np.testing.assert_array_equal(sample, DATA[z : z + 4, y : y + 8, x : x + 8])
        feeder.join()


def test_samples_of_another_shape_are_refused_at_once(image, executor):
    with pipeline_of(executor) as pipeline:
        with pytest.raises(UsageError, match="asks for"):
            pipeline.push([crop(image, (0, 0, 0), (4, 8, 8)), crop(image, (0, 0, 0), (4, 8, 9))])
        with pytest.raises(UsageError, match="no batch"):
            pipeline.pop()


def test_cancel_ends_whoever_waits(image, executor):
    slow = threading.Event()
    plain = image.store.read_file_into
    image.store.read_file_into = lambda *a: slow.wait(5) and plain(*a)
    token = CancelToken()
    samples = [crop(image, (0, 0, 0), (4, 8, 8))] * 2
    with pipeline_of(executor, cancel=token) as pipeline:
        pipeline.push(samples)
        threading.Timer(0.1, token.cancel).start()
        began = time.monotonic()
        with pytest.raises(Cancelled):
            pipeline.pop()
        assert time.monotonic() - began < 2
        with pytest.raises(Cancelled):
            pipeline.push(samples)
        slow.set()
    assert executor.memory.used == 0
    with pytest.raises(Cancelled):
        executor.run(ChunkPlanner().plan(samples), cancel=token)


def test_complex_pixels_are_not_silently_made_real(executor):
    image = image_in(files_of(ramp((8, 8), "c8"), chunks=(4, 4), zarr_format=2), "yx")
    sample = crop(image, (0, 0), (4, 4))
    with pytest.raises(UnsupportedOperation, match="complex"):
        executor.run(ChunkPlanner().plan([sample]), dtype="f32")
    with pipeline_of(executor, shape=(4, 4), dtype="f32", samples=1) as pipeline:
        pipeline.push([sample])
        with pipeline.pop() as batch, pytest.raises(UnsupportedOperation, match="complex"):
            _ = batch.array


def test_many_threads_may_run_plans_on_one_executor(image, executor):
    planner = ChunkPlanner()

    def read(i):
        z, y, x = i % 12, i % 30, i % 40
        (found,) = executor.run(planner.plan([crop(image, (z, y, x), (4, 8, 8))]))
        return np.array_equal(found, DATA[z : z + 4, y : y + 8, x : x + 8])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(200)))


def test_a_plane_of_an_archive_reads_one_chunk(tmp_path, executor):
    import zipfile

    planes = ramp((3, 4, 64, 64))
    files = files_of(
        planes, chunks=(1, 1, 64, 64), zarr_format=2, compressors=numcodecs.Blosc("zstd", 5, 1),
        chunk_key_encoding={"name": "v2", "separator": "/"},
    )  # fmt: skip
    path = tmp_path / "a.zarr.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        for key, value in files.items():
            zipped.writestr(key, value)
    image = image_in(files, "czyx")
    image.uri = str(path)
    reader = FileReader()
    seen = counting(type("Holder", (), {"store": reader.store(str(path))}))
    with CpuExecutor(reader, limits=CpuLimits(decode_workers=2)) as viewer:
        planner = ChunkPlanner()
        for z in range(4):
            before = len(seen)
            (found,) = viewer.run(planner.plan([indexed(image, 1, z)]))
            np.testing.assert_array_equal(found[0, 0], planes[1, z])
            assert len(seen) == before + 1
    reader.close()


def test_an_output_may_be_written_into_a_given_array(image, executor):
    plan = ChunkPlanner().plan([crop(image, (0, 0, 0), (4, 8, 8))])
    out = np.zeros((8, 8, 4, 2), "f8").transpose(2, 0, 1, 3)[..., 0]
    executor.run(plan, out=[out])
    np.testing.assert_array_equal(out, DATA[:4, :8, :8])
    with pytest.raises(UsageError, match="planned"):
        executor.run(plan, out=[np.zeros((4, 8, 9))])


def test_batches_that_wait_together_share_chunks(image, executor):
    gate = threading.Event()
    plain = image.store.read_file
    first = crop(image, (12, 30, 36), (4, 8, 8))
    same = [crop(image, (0, 0, x), (4, 8, 8)) for x in range(4)]
    image.store.read_file = lambda *a: gate.wait(5) and plain(*a)
    with pipeline_of(executor, samples=1) as pipeline:
        pipeline.push([first])  # keeps the coordinator busy reading its shard's index
        time.sleep(0.1)
        pipeline.push(same)
        gate.set()
        pipeline.pop().release()
        for x in range(4):
            with pipeline.pop() as batch:
                np.testing.assert_array_equal(batch.array[0], DATA[:4, :8, x : x + 8])
        while (stats := pipeline.stats()).uses < 5:  # counted when a plan ends, just after its last batch
            time.sleep(0.01)
    assert stats.uses == 5
    assert stats.chunks == 2


@pytest.mark.parametrize(
    "codec", [None, zc.ZstdCodec(level=1), zc.BloscCodec(cname="zstd", clevel=1, typesize=2)]
)
def test_less_than_a_chunk_is_decoded_where_less_is_needed(executor, codec):
    data = (1 + np.random.default_rng(5).integers(0, 900, (64, 64, 128))).astype("u2")
    image = image_in(files_of(data, chunks=(64, 64, 128), compressors=codec), "zyx")
    stored = image.store.extent("c/0/0/0").length
    for start, shape in (((0, 0, 0), (3, 64, 128)), ((20, 7, 9), (2, 5, 6)), ((61, 0, 0), (3, 64, 128))):
        plan = ChunkPlanner().plan([crop(image, start, shape)] * 2)
        seen = counting(image)
        for found in executor.run(plan):
            z, y, x = start
            np.testing.assert_array_equal(found, data[z : z + shape[0], y : y + shape[1], x : x + shape[2]])
        if not isinstance(codec, zc.ZstdCodec):  # a stream is read whole, and decoded from its beginning
            assert sum(n for _, _, n in seen) < stored / 3


@pytest.mark.parametrize("filter_", ["linear", "nearest"])
@pytest.mark.parametrize("dtype", ["u16", "f32"])
def test_turned_boxes_decode_only_the_beginning_of_zstd_chunks(executor, filter_, dtype):
    data = (1 + np.random.default_rng(5).integers(0, 900, (70, 64, 128))).astype("u2")
    options = {"chunks": (64, 64, 128)}
    plain = image_in(files_of(data, **options), "zyx")
    packed = image_in(files_of(data, **options, compressors=zc.ZstdCodec(level=1)), "zyx")
    for offset, boundary in ((-6, "constant"), (3, "clamp"), (11, "error"), (50, "clamp")):
        query = SpatialQuery(
            [[0.8, 0.1, 0.05, offset], [0.1, 0.9, 0, 4], [0, -0.1, 0.9, 30]], Sampler(filter_, boundary), 0
        )
        found = [
            executor.run(ChunkPlanner().plan([query.resolve(image, (9, 40, 60))]), dtype=dtype)[0]
            for image in (plain, packed)
        ]
        np.testing.assert_array_equal(*found)
        assert found[1].any()
    # damage behind what is needed is not even looked at
    stored = packed.store._data["c/0/0/0"]
    packed.store._data["c/0/0/0"] = stored[:-9] + bytes(9)
    query = SpatialQuery([[1, 0.1, 0, 1], [0, 1, 0, 4], [0, 0, 1, 3.5]], Sampler(filter_, "error"), 0)
    executor.run(ChunkPlanner().plan([query.resolve(packed, (9, 40, 60))]))
