"""OME-NGFF metadata checked by yaozarrs' models, with the reasons in plain words."""

from __future__ import annotations

import re
import threading
import warnings
from dataclasses import dataclass
from typing import Any

__all__ = ["Verdict", "validate"]

_MOST = 10
_NUMBERS = re.compile(r"\d+")
_lock = threading.Lock()  # catching warnings changes state that all threads share


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the models say of one group.

    Attributes
    ----------
    errors, warnings : tuple of str
        What must and what should be otherwise, a sentence each.
    """

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def validate(version: str, kind: str, attributes: dict[str, Any], ome: dict[str, Any]) -> Verdict:
    """Validate a group's attributes.

    Parameters
    ----------
    version : str
        ``"0.4"`` or ``"0.5"``.
    kind : str
        ``"image"``, ``"labels"`` (a label image), ``"label-group"``, ``"plate"`` or ``"well"``.
    attributes, ome : dict
        All attributes, and those of OME-NGFF (the same ones in 0.4).
    """
    import pydantic
    from yaozarrs import v04, v05

    models: Any = v05 if version == "0.5" else v04
    name = {
        "image": "Image",
        "labels": "LabelImage",
        "label-group": "LabelsGroup",
        "plate": "Plate",
        "well": "Well",
    }[kind]
    errors: list[str] = []
    with _lock, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            getattr(models, name).model_validate(ome if version == "0.5" else attributes)
        except pydantic.ValidationError as error:
            errors = _plain(error.errors(include_url=False, include_context=False), ome)
    notes = [str(w.message).removeprefix("Warning: ") for w in caught]
    return Verdict(tuple(errors[:_MOST]), tuple(dict.fromkeys(notes))[:_MOST])


def _plain(errors: list[Any], ome: dict[str, Any]) -> list[str]:
    """Errors as sentences; of the branches of a union only the one that was meant."""
    wrong_branch = {
        e["loc"][:-1] for e in errors if e["type"] == "literal_error" and e["loc"][-1:] == ("type",)
    }
    meant = [e for e in errors if not any(e["loc"][: len(b)] == b for b in wrong_branch)]
    sentences = []
    for error in meant or errors[:1]:
        where = ""
        for part in error["loc"]:
            if isinstance(part, int):
                where += f"[{part}]"
            elif not part[:1].isupper():  # a model's name is no part of the document
                where += f".{part}" if where else part
        sentences.append(_sentence(where or "the metadata", error))
    kinds: dict[str, list[str]] = {}  # the same fault in many places of a list is one
    for sentence in sentences:
        kinds.setdefault(_NUMBERS.sub("", sentence), []).append(sentence)
    return [
        alike[0] if len(set(alike)) == 1 else f"{alike[0]} (and {len(set(alike)) - 1} more like it)"
        for alike in kinds.values()
    ]


def _sentence(where: str, error: Any) -> str:
    kind, given = error["type"], error.get("input")
    shown = f" ({str(given)[:60]!r})" if isinstance(given, str | int | float | bool) else ""
    if kind == "missing":
        return f"{where} is missing"
    message = error["msg"].removeprefix("Value error, ").split("\n\nTIP")[0].replace("\n", " ").strip()
    return f"{where}{shown}: {message[:300]}"
