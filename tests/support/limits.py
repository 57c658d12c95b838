"""Runs functions on files that nobody trusts, in worker processes with a limit of memory and of time.

A worker lives for many calls. One that crashes, or that is killed because it takes too long, is replaced.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["LimitedPool", "Outcome", "run_limited"]

ROOT = Path(__file__).parents[2]
GIB = 1 << 30


@dataclass(frozen=True)
class Outcome:
    """What became of a call."""

    arguments: dict[str, Any]
    state: Literal["done", "error", "crashed", "timeout"]
    value: Any
    """What the function returned; the error's words if it raised."""
    seconds: float
    peak: int
    """Most resident memory during the call, in bytes; 0 where it is not known."""


class LimitedPool:
    """Worker processes that call one function, given as ``"module:function"``, with JSON arguments.

    Parameters
    ----------
    function : str
        Takes and returns what JSON can hold.
    memory : int
        Bytes of private memory a worker may map (``RLIMIT_DATA``, so threads' stacks count too).
    seconds : float
        Time for a call.
    workers : int
        How many processes.
    """

    def __init__(
        self, function: str, *, memory: int = 2 * GIB, seconds: float = 30, workers: int = 2
    ) -> None:
        self._function, self._memory, self._seconds = function, memory, seconds
        self._threads = ThreadPoolExecutor(workers)
        self._own = threading.local()
        self._all: list[_Worker] = []

    def map(self, arguments: Iterable[dict[str, Any]]) -> Iterator[Outcome]:
        """Call with each of the arguments; outcomes come in their order."""
        return self._threads.map(self._call, arguments)

    def _call(self, arguments: dict[str, Any]) -> Outcome:
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None or not worker.alive:
            worker = self._own.worker = _Worker(self._function, self._memory)
            self._all.append(worker)
        return worker.call(arguments, self._seconds)

    def __enter__(self) -> LimitedPool:
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for worker in self._all:
            worker.close()


def run_limited(
    command: Sequence[str | Path], *, memory: int = 2 * GIB, seconds: float = 30, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command with the same limits; `subprocess.TimeoutExpired` if it takes too long."""
    limited = [sys.executable, "-c", _LIMIT_AND_RUN, str(memory), *map(str, command)]
    return subprocess.run(limited, capture_output=True, text=True, timeout=seconds, check=False, **more)


_LIMIT_AND_RUN = """
import os, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]),) * 2)
except ImportError:
    pass
os.execvp(sys.argv[2], sys.argv[2:])
"""


class _Worker:
    def __init__(self, function: str, memory: int) -> None:
        code = f"from tests.support.limits import _serve; _serve({function!r}, {memory})"
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error::ResourceWarning", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*_before(), str(ROOT)])},
        )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.alive = True
        if self._wait(60) != "ready\n":  # imports do not count
            self.close()
            raise RuntimeError(f"the worker for {function} does not start")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _wait(self, seconds: float) -> str | None:
        try:
            return self._answers.get(timeout=seconds)
        except queue.Empty:
            return None

    def call(self, arguments: dict[str, Any], seconds: float) -> Outcome:
        assert self._process.stdin is not None
        start = time.monotonic()
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        answer = self._wait(seconds)
        took = time.monotonic() - start
        if not answer:
            code = self.close()
            state: Literal["timeout", "crashed"] = "timeout" if answer is None else "crashed"
            return Outcome(arguments, state, f"{state} (exit code {code})", took, 0)
        done = json.loads(answer)
        return Outcome(arguments, done["state"], done["value"], took, done["peak"])

    def close(self) -> int:
        """End the process; returns its exit code, which is the signal's if it had to be killed."""
        self.alive = False
        if self._process.stdin is not None and self._process.poll() is None:
            self._process.stdin.close()
        try:
            return self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._reader.join()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()


def _serve(name: str, memory: int) -> None:
    """Answer calls line by line; what the function prints goes to stderr."""
    module, _, attribute = name.partition(":")
    function = getattr(importlib.import_module(module), attribute)
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(2, 1)
        _limit(memory)
        answers.write("ready\n")
        for line in sys.stdin:
            _forget_peak()
            try:
                done = {"state": "done", "value": function(**json.loads(line))}
            except Exception as error:  # noqa: BLE001 - any error is what the caller wants to see
                done = {"state": "error", "value": f"{type(error).__name__}: {error}"}
            answers.write(json.dumps(done | {"peak": _peak()}) + "\n")


def _limit(memory: int) -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _forget_peak() -> None:
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    if sys.platform != "linux":
        return 0
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _before() -> list[str]:
    given = os.environ.get("PYTHONPATH")
    return [given] if given else []
