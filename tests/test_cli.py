"""The command line: what it prints, its exit codes, and one clear sentence for every bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.support.damage import edit_entry, flip_stored_byte, rewrite
from tests.support.ngff import group_keys, image_keys, ramp
from tests.support.tiffwriter import TiffSpec, write_tiff

from napari_decant.cli import main

AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def tiff(tmp_path: Path) -> Path:
    return write_tiff(tmp_path / "cells.tif", TiffSpec(pages=2, height=20, width=30)).path


@pytest.fixture
def archive(tiff: Path) -> Path:
    assert main(["pack", str(tiff)]) == 0
    return tiff.with_name("cells.tif.zarr.zip")


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a call."""
    capsys.readouterr()
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def one_sentence(text: str) -> None:
    assert text.startswith("napari-decant: ")
    assert text.count("\n") == 1
    assert "Traceback" not in text


def test_round_trip(capsys: pytest.CaptureFixture[str], tiff: Path, tmp_path: Path) -> None:
    code, out, err = run(capsys, "pack", tiff, "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    assert "every byte was checked" in out
    packed = tmp_path / "out" / "cells.tif.zarr.zip"
    code, out, _ = run(capsys, "verify", packed)
    assert code == 0
    assert "whole" in out
    code, out, _ = run(capsys, "info", packed)
    assert code == 0
    assert "z2 y20 x30 uint16" in out
    assert run(capsys, "restore", packed, "-o", tmp_path / "back")[0] == 0
    assert (tmp_path / "back" / "cells.tif").read_bytes() == tiff.read_bytes()


def test_json_of_every_verb(capsys: pytest.CaptureFixture[str], tiff: Path, tmp_path: Path) -> None:
    plan = json.loads(run(capsys, "pack", "--dry-run", "--json", tiff)[1])
    assert plan["rows"][0]["mode"] == "byte-exact"
    assert plan["rows"][0]["axes"] == ["z", "y", "x"]
    assert plan["rows"][0]["target"] == f"{tiff}.zarr.zip"
    assert plan["rows"][0]["estimated_size"] > 0
    assert not Path(f"{tiff}.zarr.zip").exists()
    packed = json.loads(run(capsys, "pack", "--json", tiff)[1])
    archive = packed["rows"][0]["archive"]
    assert packed["ok"]
    assert packed["rows"][0]["state"] == "packed"
    assert json.loads(run(capsys, "verify", "--json", archive)[1])["results"][0]["whole"] is True
    assert json.loads(run(capsys, "verify", "--quick", "--json", archive)[1])["results"][0]["whole"] is None
    assert json.loads(run(capsys, "info", "--json", archive)[1])["results"][0]["mode"] == "byte-exact"
    restored = json.loads(run(capsys, "restore", "--json", archive, "-o", tmp_path / "back")[1])
    assert restored["results"][0]["files"] == [str(tmp_path / "back" / "cells.tif")]


def test_missing_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = ["-o", tmp_path / "o.zarr"]
    verbs = (["pack"], ["verify"], ["info"], ["restore", *target], ["view"], ["check"])
    for verb in (*verbs, ["crop", *target], ["export", *target], ["export", "--dry-run", *target]):
        code, _, err = run(capsys, *verb, tmp_path / "none.tif")
        assert code == 2
        one_sentence(err)
        assert "none.tif does not exist" in err


@pytest.mark.parametrize("words", [["pack"], ["pack", "--bogus", "x"], ["nonsense"], ["restore", "x"]])
def test_wrong_call(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    code, _, err = run(capsys, *words)
    assert code == 2
    one_sentence(err)


@pytest.mark.parametrize(
    "words",
    [
        ["--memory", "lots"],
        ["--workers", "0"],
        ["--codec", "gzip"],
        ["--levels", "-1"],
        ["--pattern", "img_t{t}.tif"],
        ["--permanently"],
        ["--output", ""],
        ["--output="],
    ],
    ids=" ".join,
)
def test_wrong_option(capsys: pytest.CaptureFixture[str], tiff: Path, words: list[str]) -> None:
    code, _, err = run(capsys, "pack", tiff, *words)
    assert code == 2
    one_sentence(err)
    assert not Path(f"{tiff}.zarr.zip").exists()
    assert run(capsys, "pack", tiff)[0] == 0
    assert run(capsys, "pack", tiff, *words)[0] == 2  # also where there is nothing to do


@pytest.mark.parametrize("verb", [["pack"], ["verify"], ["info"], ["clean"], ["restore", "-o", "back"]])
def test_an_empty_path_is_not_this_folder(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tiff: Path,
    archive: Path,
    verb: list[str],
) -> None:
    """So a script whose variable is not set does nothing to the folder that it is in."""
    monkeypatch.chdir(tiff.parent)
    before = sorted(tiff.parent.iterdir())
    code, _, err = run(capsys, *verb, "")
    assert code == 2
    one_sentence(err)
    assert sorted(tiff.parent.iterdir()) == before


def test_a_tiff_where_an_archive_is_wanted(
    capsys: pytest.CaptureFixture[str], tiff: Path, tmp_path: Path
) -> None:
    for verb in (["verify"], ["verify", "--quick"], ["info"], ["restore", "-o", tmp_path / "back"]):
        code, _, err = run(capsys, *verb, tiff)
        assert code == 2
        one_sentence(err)
        assert "is a TIFF and no archive" in err


def test_a_folder_where_a_file_would_be_restored(
    capsys: pytest.CaptureFixture[str], tiff: Path, archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "back" / tiff.name).mkdir(parents=True)
    for more in ([], ["--overwrite"]):
        code, _, err = run(capsys, "restore", archive, "-o", tmp_path / "back", *more)
        assert code == 2
        one_sentence(err)
    assert [path.name for path in (tmp_path / "back").iterdir()] == [tiff.name]


def test_an_output_folder_that_is_a_file(
    capsys: pytest.CaptureFixture[str], tiff: Path, archive: Path
) -> None:
    for verb in (["pack", tiff], ["restore", archive]):
        for output in (tiff, tiff / "below"):
            code, _, err = run(capsys, *verb, "-o", output)
            assert code == 2
            one_sentence(err)
            assert f"{tiff} is no folder" in err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["export", "--compression", "99"], "the levels of zstd end at 22"),
        (["crop", "--matrix", "1,0,0,0;0,1,0,0;0,0,1,0", "--shape", "nan,3,3"], "whole numbers"),
        (["crop", "--matrix", "1,0,0,0;0,1,0,0;0,0,1,0", "--shape", "1.5,3,3"], "whole numbers"),
        (["crop", "--origin", "y=1,y=2"], "'y' twice"),
        (["export", "--image", "5"], "image '5'"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_wrong_number(
    capsys: pytest.CaptureFixture[str], tiff: Path, words: list[str], reason: str, tmp_path: Path
) -> None:
    code, _, err = run(capsys, *words, tiff, "-o", tmp_path / "a.zarr")
    assert code == 2
    one_sentence(err)
    assert reason in err
    assert not (tmp_path / "a.zarr").exists()


def test_a_page_of_a_check_replaces_no_file_unasked(
    capsys: pytest.CaptureFixture[str], tiff: Path, tmp_path: Path
) -> None:
    before = tiff.read_bytes()
    for page, reason in ((tiff, "exists already"), (tmp_path / "none" / "a.html", "folder does not exist")):
        code, out, err = run(capsys, "check", tiff, "--html", page)
        assert (code, out) == (2, "")
        one_sentence(err)
        assert reason in err
    assert tiff.read_bytes() == before
    page = tmp_path / "a.html"
    assert [run(capsys, "check", tiff, "--html", page)[0] for _ in range(2)] == [1, 2]
    assert run(capsys, "check", tiff, "--html", page, "--overwrite")[0] == 1


def test_several_images_name_the_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    keys = group_keys("", {"bioformats2raw.layout": 3})
    for path in "01":
        keys |= image_keys([ramp((4, 5))], "yx", path=path)
    for key, value in keys.items():
        (tmp_path / "series.zarr" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "series.zarr" / key).write_bytes(value)
    for verb in ("crop", "export"):
        code, _, err = run(capsys, verb, tmp_path / "series.zarr", "-o", tmp_path / "a.zarr")
        assert code == 2
        one_sentence(err)
        assert "with --image" in err
    code, out, _ = run(capsys, "check", tmp_path / "series.zarr", "--image", "7")
    assert code == 1
    assert "holds no image '7'" in out


def test_folder_without_tiffs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    code, _, err = run(capsys, "pack", tmp_path)
    assert code == 2
    one_sentence(err)
    assert "holds no TIFF files" in err


def test_existing_output(
    capsys: pytest.CaptureFixture[str], tiff: Path, archive: Path, tmp_path: Path
) -> None:
    code, out, _ = run(capsys, "pack", tiff)
    assert code == 0
    assert "packed already" in out
    write_tiff(tiff, TiffSpec(pages=2, height=20, width=30, seed=9, trailing=3))
    before = archive.read_bytes()
    code, _, err = run(capsys, "pack", tiff)
    assert code == 2
    one_sentence(err)
    assert archive.read_bytes() == before
    assert run(capsys, "pack", tiff, "--overwrite")[0] == 0
    assert archive.read_bytes() != before
    assert run(capsys, "restore", archive, "-o", tmp_path / "back")[0] == 0
    code, _, err = run(capsys, "restore", archive, "-o", tmp_path / "back")
    assert code == 2
    assert "exists already" in err
    assert run(capsys, "restore", archive, "-o", tmp_path / "back", "--overwrite")[0] == 0
    assert (tmp_path / "back" / "cells.tif").read_bytes() == tiff.read_bytes()


@pytest.mark.skipif(AS_ROOT or os.name == "nt", reason="root and Windows ignore permission bits")
def test_unreadable_source(capsys: pytest.CaptureFixture[str], tiff: Path) -> None:
    tiff.chmod(0)
    code, _, err = run(capsys, "pack", tiff)
    assert code == 4
    one_sentence(err)


@pytest.mark.skipif(AS_ROOT or os.name == "nt", reason="root and Windows ignore permission bits")
def test_read_only_folder(capsys: pytest.CaptureFixture[str], tiff: Path, tmp_path: Path) -> None:
    (tmp_path / "ro").mkdir(mode=0o555)
    code, _, err = run(capsys, "pack", tiff, "-o", tmp_path / "ro")
    assert code == 4
    one_sentence(err)
    assert list((tmp_path / "ro").iterdir()) == []


@pytest.mark.skipif(not AS_ROOT or sys.platform != "linux", reason="needs root to drop its rights")
def test_permissions_as_another_user() -> None:
    """The two tests above where tests run as root: a subprocess gives up root first."""
    program = (
        # modules are in memory before the rights go, since the checkout may be the user's own
        "import os, sys; from napari_decant.cli import main; from napari_decant import pack;"
        "pack(sys.argv[4], sys.argv[5]); os.setgid(65534); os.setuid(65534); sys.exit(main(sys.argv[1:4]))"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        tiff = write_tiff(folder / "cells.tif", TiffSpec(pages=2)).path
        secret = write_tiff(folder / "secret.tif", TiffSpec(pages=2)).path
        secret.chmod(0)
        (folder / "ro").mkdir(mode=0o555)
        (folder / "open").mkdir()
        (folder / "open").chmod(0o777)
        for source, output in ((secret, folder / "open"), (tiff, folder / "ro")):
            words = ["pack", source, f"-o={output}", tiff, folder / f"warm-{output.name}"]
            done = subprocess.run(
                [sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True, check=False
            )
            assert done.returncode == 4, done.stderr
            one_sentence(done.stderr)
            assert "permission" in done.stderr.lower()
            assert list(output.iterdir()) == []


def test_archive_cut_short(capsys: pytest.CaptureFixture[str], archive: Path, tmp_path: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-30])
    code, out, _ = run(capsys, "verify", archive)
    assert code == 1
    assert "cut short" in out
    code, _, err = run(capsys, "restore", archive, "-o", tmp_path / "back")
    assert code == 3
    one_sentence(err)
    assert not (tmp_path / "back" / "cells.tif").exists()


@pytest.mark.parametrize("key", ["0/1/0/0", "husk/0", ".decant/manifest.json"])
def test_flipped_byte(capsys: pytest.CaptureFixture[str], archive: Path, tmp_path: Path, key: str) -> None:
    flip_stored_byte(archive, key)
    code, out, _ = run(capsys, "verify", archive)
    assert code == 1
    assert key in out
    code, _, err = run(capsys, "restore", archive, "-o", tmp_path / "back")
    assert code in (1, 3)
    one_sentence(err)
    assert not (tmp_path / "back" / "cells.tif").exists()


def test_newer_format(capsys: pytest.CaptureFixture[str], archive: Path, tmp_path: Path) -> None:
    edit_entry(archive, ".decant/manifest.json", lambda data: data.replace(b'"format":1', b'"format":2'))
    for words in (["verify", archive], ["restore", archive, "-o", tmp_path / "back"], ["info", archive]):
        code, _, err = run(capsys, *words)
        assert code == 3
        one_sentence(err)
        assert "format 2" in err
    assert not (tmp_path / "back" / "cells.tif").exists()


def test_names_that_leave_the_folder(
    capsys: pytest.CaptureFixture[str], archive: Path, tmp_path: Path
) -> None:
    rewrite(archive, lambda entries: entries.update({"../evil": b"x"}))
    for words in (["verify", archive], ["restore", archive, "-o", tmp_path / "back"]):
        code, _, err = run(capsys, *words)
        assert code == 3
        one_sentence(err)
        assert "unsafe" in err
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "back").exists()


def test_batch_goes_on_after_a_failure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    write_tiff(folder / "a.tif", TiffSpec(seed=1))
    write_tiff(folder / "deep" / "b.tif", TiffSpec(seed=2))
    (folder / "c.tif").symlink_to(folder / "a.tif")
    code, _, err = run(capsys, "pack", folder, "-o", tmp_path / "out")
    assert code == 2
    assert "c.tif is a link" in err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [row["state"] for row in report["rows"]] == ["packed", "failed", "packed"]
    assert run(capsys, "restore", tmp_path / "out", "-o", tmp_path / "back")[0] == 0
    assert (tmp_path / "back" / "deep" / "b.tif").read_bytes() == (folder / "deep" / "b.tif").read_bytes()
    sums = (tmp_path / "out" / "SHA256SUMS").read_text()
    assert "  deep/b.tif\n" in sums


def test_no_traceback_unless_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tiff: Path
) -> None:
    from napari_decant import archive

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(archive, "plan", fail)
    code, _, err = run(capsys, "pack", tiff)
    assert code == 3
    one_sentence(err)
    assert "boom" in err
