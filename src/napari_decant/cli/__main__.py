"""``python -m napari_decant.cli``."""

import sys

from napari_decant.cli import main

if __name__ == "__main__":
    sys.exit(main())
