"""Bring files that live elsewhere in the repository into the documentation site.

They keep their one place (``spec/``, ``CHANGELOG.md``, ``CONTRIBUTING.md``, the icon) and appear in the
site beside the pages of ``docs/``.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PLACES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "resources/icon.svg": "images/icon.svg",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files, with links between them pointing to their places in the site."""
    places = dict(PLACES)
    for path in sorted((ROOT / "spec").iterdir()):
        if path.is_file():
            places[f"spec/{path.name}"] = f"spec/{path.name}"
    for source, place in places.items():
        path = ROOT / source
        content = path.read_bytes()
        if path.suffix == ".md":
            content = _relinked(content.decode("utf-8"), place).encode("utf-8")
        files.append(File.generated(config, place, content=content))
    return files


def _relinked(text: str, place: str) -> str:
    """Turn links that are right in the repository into links that are right in the site."""
    up = "../" * place.count("/")
    text = re.sub(r"\]\((\.\./)?docs/", f"]({up}", text)
    for source, target in PLACES.items():
        text = text.replace(f"]({source})", f"]({up}{target})")
    return text
