"""JSON of unknown origin: size, depth and number caps, lenient on NaN, strict on repeated fields."""

from __future__ import annotations

import json
from typing import Any, Final

from napari_decant.errors import FormatError, UnsafeInput

__all__ = ["MAX_JSON_DEPTH", "JsonObject", "load_json", "take"]

MAX_JSON_DEPTH: Final = 64


class JsonObject(dict[str, Any]):
    """A JSON object in which some field was written more than once."""

    repeated: frozenset[str] = frozenset()


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    seen: set[str] = set()
    twice = frozenset(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    marked = JsonObject(plain)
    marked.repeated = twice
    return marked


def load_json(raw: bytes, where: str, *, max_bytes: int = 16 << 20, max_depth: int = MAX_JSON_DEPTH) -> Any:
    """Parse JSON from an untrusted source.

    Parameters
    ----------
    raw : bytes
        UTF-8 text, with or without byte order mark; bare ``NaN`` and ``Infinity`` are accepted.
    where : str
        Names the file in messages.
    max_bytes, max_depth : int
        Larger or deeper documents are refused.

    Raises
    ------
    UnsafeInput
        Too large or nested too deeply.
    FormatError
        Not JSON.
    """
    if len(raw) > max_bytes:
        raise UnsafeInput(f"{where} has {len(raw):,} bytes; metadata above {max_bytes:,} is not read")
    too_deep = f"{where} nests deeper than {max_depth} levels; it is not read"
    try:
        value = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_pairs)
    except RecursionError:
        raise UnsafeInput(too_deep) from None
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are both ValueErrors
        raise FormatError(f"{where} is not valid JSON ({error}); the file may be damaged") from None
    if raw.count(b"{") + raw.count(b"[") > max_depth:
        level = [value]
        for _ in range(max_depth + 1):
            level = [
                item
                for node in level
                for item in (node.values() if isinstance(node, dict) else node)
                if isinstance(item, dict | list)
            ]
            if not level:
                break
        else:
            raise UnsafeInput(too_deep)
    return value


_MISSING: Final = object()


def take(obj: dict[str, Any], key: str, where: str, default: Any = _MISSING) -> Any:
    """Return the value of a field that is used, refusing one written twice or absent."""
    if isinstance(obj, JsonObject) and key in obj.repeated:
        raise FormatError(f"{where} has the field {key!r} more than once, so its meaning is unclear")
    if key in obj:
        return obj[key]
    if default is _MISSING:
        raise FormatError(f"{where} lacks the field {key!r}")
    return default
