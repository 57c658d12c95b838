"""Write or check the manifest's JSON schema: ``python -m napari_decant.archive.schema [--check] FILE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from napari_decant.archive._manifest import Manifest

__all__ = ["main", "manifest_schema"]


def manifest_schema() -> str:
    """The schema as it stands in ``spec/``, generated from the model."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Manifest.model_json_schema()}
    return json.dumps(schema, indent=2) + "\n"


def main(arguments: list[str]) -> int:
    """Write the schema to a file, or with ``--check`` compare; returns the exit code."""
    check = "--check" in arguments
    (target,) = [Path(argument) for argument in arguments if argument != "--check"]
    if not check:
        target.write_text(manifest_schema(), encoding="utf-8")
        return 0
    if target.read_text(encoding="utf-8") == manifest_schema():
        return 0
    sys.stderr.write(
        f"{target} differs from the model; run: python -m napari_decant.archive.schema {target}\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
