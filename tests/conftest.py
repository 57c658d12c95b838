"""What every test has: no network, no settings of the user's, and the corpus if there is one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.corpus import VARIABLE, CorpusFile, corpus_root, corpus_tiffs

_LOCAL = ("127.", "::1", "localhost")


@pytest.fixture(autouse=True, scope="session")
def _isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's settings out, and let no connection leave this machine."""
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        if self.family != getattr(socket, "AF_UNIX", None) and not str(host).startswith(_LOCAL):
            raise OSError(f"tests use no network, but something connects to {address!r}")
        connect(self, address)

    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", local_only)
        patch.setenv("NAPARI_CONFIG", str(home / "napari.yaml"))
        patch.setenv("XDG_CONFIG_HOME", str(home))
        yield


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of the corpus."""
    root = corpus_root()
    if root is None:
        pytest.skip(f"the corpus is not here; set {VARIABLE} to the folder that holds MANIFEST.tsv")
    assert (root / "MANIFEST.tsv").is_file(), f"{VARIABLE} is {root}, which has no MANIFEST.tsv"
    return root


@pytest.fixture(scope="session")
def tiffs(corpus: Path) -> list[CorpusFile]:
    """Every TIFF of the corpus."""
    return corpus_tiffs(corpus)
