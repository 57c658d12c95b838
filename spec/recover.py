# fmt: off
"""Get the original files out of a decant archive: ``python recover.py ARCHIVE OUTDIR``.

Written from the format document alone; needs zarr (2 or 3), numcodecs and numpy, not the program that packed.
It holds a page and a block of the husk at a time. A file gets its name only once its sha256 is right."""
# ruff: noqa: B905, D103, D209, E401, I001, SIM905
import functools, hashlib, itertools, json, os, pathlib, re, sys, tempfile, zipfile
import numcodecs.registry, numpy as np, zarr
for name in numcodecs.registry.codec_registry.keys() - {*"blosc bz2 gzip lz4 lzma shuffle zlib zstd".split()}:
    del numcodecs.registry.codec_registry[name]  # one of the others (pickle) runs code from the archive

def inside(root, name):
    path = os.path.join(os.path.realpath(root), name)
    if re.search(r"\\|\0|^.:|(^|/)\.{0,2}(/|$)", name) or os.path.realpath(path) != os.path.normpath(path):
        raise ValueError(f"the name {name!r} leads out of {root}")
    return path

def load(path):  # the manifest, and a function that opens an array
    key, folder = ".decant/manifest.json", os.path.isdir(path)
    manifest = json.loads(pathlib.Path(path, key).read_bytes() if folder else zipfile.ZipFile(path).read(key))
    if manifest["format"] != 1 or manifest["mode"] not in ("byte-exact", "verbatim", "series"):
        raise ValueError(f"format {manifest['format']}, mode {manifest['mode']!r} needs a newer reader")
    store = path if folder else zarr.storage.ZipStore(path, mode="r")
    return manifest, functools.lru_cache(4)(lambda array: zarr.open_array(store, path=array, mode="r"))

def reader(array):  # read in order, each block is decoded once
    step = min(array.chunks[0] or 1, 1 << 24)
    block = functools.lru_cache(1)(lambda n: memoryview(array[n * step : (n + 1) * step].tobytes()))
    def read(start, stop):
        for n in range(start // step, -(-min(stop, array.shape[0]) // step)):
            yield block(n)[max(0, start - n * step) : stop - n * step]
    return read

def page_bytes(page, array, names, order):  # section 5: find the page, and write it as the file did
    leading = array.shape[: array.ndim - len(page["shape"])]
    rank = [{"t": 0, "z": 2, "y": 2, "x": 2}.get(axis, 1) for axis in names] or [0] * len(leading)
    perm = sorted(range(len(rank)), key=rank.__getitem__)
    where = perm and np.unravel_index(page["index"], [leading[perm.index(i)] for i in range(len(perm))])
    pixels = array[tuple(int(where[p]) for p in perm)].reshape(*page["shape"][:2], -1)
    pixels = pixels.astype(np.dtype(page["dtype"]).newbyteorder(order))
    high, wide = page["tilelength"] or pixels.shape[0], page["tilewidth"] or pixels.shape[1]
    corners = [*itertools.product(range(0, pixels.shape[0], high), range(0, pixels.shape[1], wide))]
    planes = np.moveaxis(pixels, 2, 0) if page["planarconfig"] == 2 else [pixels]
    return memoryview(b"".join(p[y : y + high, x : x + wide].tobytes() for p in planes for y, x in corners))

def splice(array, husk, record, names):  # section 5: gaps come from the husk, the rest from the pages
    pages, regions, at, taken = record["pages"], [(record["original_size"], 0, 0, 0)], 0, 0
    stored = functools.lru_cache(1)(lambda n: page_bytes(pages[n], array("0"), names, record["byteorder"]))
    for n, (offsets, counts) in enumerate((page["dataoffsets"], page["databytecounts"]) for page in pages):
        regions += zip(offsets, counts, [n] * len(counts), itertools.accumulate(counts, initial=0))
    for offset, count, n, start in sorted(regions):
        yield from husk(taken, taken + offset - at)
        yield stored(n)[start : start + count] if count else b""
        at, taken = offset + count, taken + offset - at

def pieces(path, manifest, array, record):
    if manifest["mode"] == "series" and not manifest["series_consolidated"]:
        return pieces(path, *(inner := load(inside(path, record["subarchive"]))), inner[0])
    if manifest["mode"] == "verbatim":
        return reader(array("original"))(0, record["original_size"])
    husk = reader(array(record.get("husk_array") or "husk"))
    return splice(array, husk, record, manifest.get("plane_order") or [])

sys.excepthook = lambda kind, error, _: print(f"not restored: {kind.__name__}: {error}", file=sys.stderr)
archive, outdir = sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__)
manifest, array = load(archive)
records = manifest.get("members") or [{**manifest, "relpath": manifest["original_name"]}]
targets = [inside(outdir, record["relpath"]) for record in records]
if len(set(targets)) < len(targets) or any(map(os.path.lexists, targets)):
    raise ValueError(f"a file of the archive is in {outdir} already, or two have one name")
for record, target in zip(records, targets):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".recover-", dir=os.path.dirname(target)) as temp:
        with (part := pathlib.Path(temp, "part")).open("w+b") as out:
            out.writelines(pieces(archive, manifest, array, record))
            out.seek(0)
            digest = hashlib.file_digest(out, "sha256").hexdigest()
        if digest != record["original_sha256"]:
            raise ValueError(f"{target} has not its recorded sha256: the archive is damaged")
        part.rename(target)
