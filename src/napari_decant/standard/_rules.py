"""Every rule, in the order of the document; those of OME-Zarr itself and of storage follow."""

from __future__ import annotations

from collections.abc import Iterator

from napari_decant.standard import (
    _rules_chunks,
    _rules_levels,
    _rules_ngff,
    _rules_pixels,
    _rules_shards,
    _rules_store,
)
from napari_decant.standard._rule import Outcome, Rule, RuleBook
from napari_decant.standard._rules_store import StoreFacts

__all__ = ["IMAGE_RULES", "OPENS", "RULES", "STORE_RULES", "VALID"]

_ORDER = "OMLPDTCSZNBR"
opening = RuleBook("Opening")


@opening(
    "O1",
    "MUST",
    "The location holds an OME-Zarr image that can be opened.",
    test="a folder, zip file or address with Zarr metadata",
    fix="Choose an OME-Zarr image; napari-decant export makes one of a TIFF or an archive.",
)
def opens(facts: StoreFacts) -> Iterator[Outcome]:
    """O1: whoever comes here has opened it; `check` itself reports what does not open."""
    yield Outcome(True, facts.store.uri)


OPENS = opening.rules[0]
"""The rule that a location breaks which does not open."""


def _sorted(rules: list[Rule]) -> tuple[Rule, ...]:
    return tuple(sorted(rules, key=lambda rule: (_ORDER.index(rule.id[0]), int(rule.id[1:]))))


IMAGE_RULES = _sorted(
    [
        *_rules_levels.book.rules,
        *_rules_pixels.book.rules,
        *_rules_store.labels.rules,
        *_rules_chunks.book.rules,
        *_rules_shards.book.rules,
        *_rules_shards.compression.rules,
        *_rules_ngff.book.rules,
        *_rules_pixels.stored.rules,
    ]
)
"""Rules about one image; ``check`` takes an `ImageFacts`."""

VALID = next(rule for rule in IMAGE_RULES if rule.id == "N1")
"""The rule that an image breaks which cannot be looked at."""

STORE_RULES = _sorted([OPENS, *_rules_store.plates.rules, *_rules_store.single_file.rules])
"""Rules about a whole store; ``check`` takes a `StoreFacts`."""

RULES = _sorted([*IMAGE_RULES, *STORE_RULES])
