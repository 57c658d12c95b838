"""Make the pictures of the documentation from the running program: ``make screenshots``.

Each picture has a function that leaves it in ``docs/images``; name some to make only those.
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Callable, Dict

from napari_decant import pack
from napari_decant._resources import sample_path
from napari_decant.plugin._screenshots import take_screenshots

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"


def demo_archive_in_napari(target: Path, scratch: Path) -> None:
    """Draw napari with the archive of the sample image."""
    archive = pack(sample_path(), output_dir=scratch).archive
    _, window = take_screenshots(archive, scratch)
    shutil.copyfile(window, target)


PICTURES: Dict[str, Callable[[Path, Path], None]] = {
    "demo-archive-in-napari": demo_archive_in_napari,
}


def main() -> None:
    """Make the pictures that were asked for, all by default."""
    parser = argparse.ArgumentParser(description="Make the pictures of the documentation.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    names = parser.parse_args().names or list(PICTURES)
    unknown = sorted(set(names) - set(PICTURES))
    if unknown:
        parser.error("no picture is called {}; there are {}".format(", ".join(unknown), ", ".join(PICTURES)))
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in names:
        target = IMAGES / f"{name}.png"
        with tempfile.TemporaryDirectory() as scratch:
            PICTURES[name](target, Path(scratch))
        print(target)


if __name__ == "__main__":
    main()
