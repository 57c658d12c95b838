"""Who may begin a piece of work, and when it stops: settled by files that several processes see."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from napari_decant.progress import CancelToken, Claim, close_claims


def test_work_is_begun_or_taken_back_but_never_both(tmp_path: Path) -> None:
    for i in range(200):
        claim, barrier, won = Claim(tmp_path / str(i)), threading.Barrier(2), list[str]()

        def worker(claim: Claim = claim, barrier: threading.Barrier = barrier, won: list[str] = won) -> None:
            barrier.wait()
            if claim.begin():
                won.append("worker")

        thread = threading.Thread(target=worker)
        thread.start()
        barrier.wait()
        if claim.take_back():
            won.append("owner")
        thread.join()
        assert len(won) == 1
        assert claim.begun == (won == ["worker"])
        # whoever asks again gets the same answer: a second worker goes on with what a lost one had begun
        assert claim.begin() == (won == ["worker"])
        assert claim.take_back() == (won == ["owner"])


def test_work_that_nobody_waits_for_is_not_begun(tmp_path: Path) -> None:
    folder = tmp_path / "batch"
    assert not Claim(folder / "0").begin()
    (tmp_path / "file").touch()
    assert not Claim(tmp_path / "file" / "0").begin()
    assert not folder.exists()


def test_a_claim_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        Claim(tmp_path / ("x" * 300)).begin()
    assert not Claim(tmp_path / ("x" * 300)).take_back()  # so the worker's own answer is waited for


def test_a_token_whose_folder_is_gone_is_cancelled(tmp_path: Path) -> None:
    folder = tmp_path / "batch"
    folder.mkdir()
    token = CancelToken(folder / "cancel")
    assert not token.cancelled
    folder.rmdir()
    token._next_poll = 0.0
    assert token.cancelled
    assert not folder.exists()


def test_nothing_can_be_claimed_while_a_folder_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "batch"
    folder.mkdir()
    claims = [Claim(folder / str(i)) for i in range(3)]
    assert all(claim.take_back() for claim in claims)
    token = CancelToken(folder / "cancel")
    token.cancel()
    late, stopped = list[bool](), list[bool]()
    remove = shutil.rmtree

    def slow(path: Path, **options: object) -> None:
        """Workers come to their work before, while and after the folder is removed."""
        late.extend(claim.begin() for claim in claims)
        stopped.append(CancelToken(token.path).cancelled)
        remove(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "rmtree", slow)
    close_claims(folder, tmp_path / "gone")
    assert late == [False] * 6
    assert stopped == [True] * 2
    assert list(tmp_path.iterdir()) == []
