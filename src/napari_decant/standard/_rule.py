"""What a rule is, and what checking one gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from napari_decant.errors import UsageError

__all__ = [
    "KEYWORDS",
    "STANDARDS",
    "Check",
    "Finding",
    "Keyword",
    "Outcome",
    "Rule",
    "RuleBook",
    "Status",
    "check_standard",
    "one",
]

Check = Callable[[Any], Iterator["Outcome"]]
"""Yields outcomes for what a rule looks at: an `ImageFacts`, or a `StoreFacts` for rules about a store."""

Keyword = Literal["MUST", "SHOULD", "MAY"]
Status = Literal["pass", "warn", "fail", "skip"]

KEYWORDS: tuple[Keyword, ...] = ("MUST", "SHOULD", "MAY")
STANDARDS = ("dca-0.1", "dca-0.2")
"""``dca-0.1`` is the document; ``dca-0.2`` replaces M1 by M2 and M4 by M5."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one rule found at one place.

    Attributes
    ----------
    met : bool or None
        None where it does not apply or could not be looked at; ``because`` says why.
    found, wanted : str
        The value, and what belongs there.
    path : str
        Array or group within the store.
    because : str
        Why a rule that is not met cannot be met by this data, or why it was not checked.
    tolerated : bool
        A MUST that only an unfavourable reading of the document finds broken: a warning, not a failure.
    """

    met: bool | None
    found: str
    wanted: str = ""
    path: str = ""
    because: str = ""
    tolerated: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One sentence of the standard.

    Attributes
    ----------
    id : str
        Letter of the section and number.
    keyword : {"MUST", "SHOULD", "MAY"}
    section : str
        Where it stands.
    sentence : str
        The rule in our words.
    test : str
        What is computed, as a formula to read.
    fix : str
        What to do where it is not met.
    standards : tuple of str
        Versions of the standard that have it.
    check : callable
        Yields outcomes for one image, or for a store.
    """

    id: str
    keyword: Keyword
    section: str
    sentence: str
    test: str
    fix: str
    check: Check = field(repr=False)
    standards: tuple[str, ...] = STANDARDS


class RuleBook:
    """Collects the rules of one module: ``@book("M1", "MUST", ...)`` above the function that checks it.

    Parameters
    ----------
    section : str
        Where the rules stand in the document, or the name of the specification they come from.
    """

    def __init__(self, section: str) -> None:
        self.section = section
        self.rules: list[Rule] = []

    def __call__(
        self,
        number: str,
        keyword: Keyword,
        sentence: str,
        *,
        test: str,
        fix: str = "",
        standards: tuple[str, ...] = STANDARDS,
        section: str = "",
    ) -> Callable[[Check], Check]:
        """Return a decorator that adds a rule."""

        def add(check: Check) -> Check:
            self.rules.append(
                Rule(number, keyword, section or self.section, sentence, test, fix, check, standards)
            )
            return check

        return add


def one(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Of the outcomes of a rule for several levels, yield the worst, saying how many more there are."""
    found = list(outcomes)
    broken = [o for o in found if o.met is False and not o.tolerated]
    doubtful = [o for o in found if o.met is False and o.tolerated]
    wrong = broken or doubtful
    if wrong:
        more = len(wrong) - 1
        first = wrong[0]
        yield replace(first, found=f"{first.found} (and {more} more)") if more else first
        return
    seen = [o for o in found if o.met] or found
    yield from seen[:1]


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict of one rule at one place.

    Attributes
    ----------
    rule : str
        Its id.
    keyword : {"MUST", "SHOULD", "MAY"}
    status : {"pass", "warn", "fail", "skip"}
        ``fail`` for a MUST, ``warn`` for a SHOULD that is not met; ``skip`` where nothing could be said.
    path, found, wanted, because : str
        See `Outcome`.
    sentence, fix : str
        See `Rule`; ``fix`` is empty where nothing is to be done.
    """

    rule: str
    keyword: Keyword
    status: Status
    path: str
    found: str
    wanted: str
    because: str
    sentence: str
    fix: str

    @classmethod
    def of(cls, rule: Rule, outcome: Outcome) -> Finding:
        """Judge an outcome by its rule's keyword."""
        status: Status = "pass"
        if outcome.met is None:
            status = "skip"
        elif not outcome.met:
            status = "fail" if rule.keyword == "MUST" and not outcome.tolerated else "warn"
        open_end = status in ("warn", "fail")
        return cls(
            rule.id,
            rule.keyword,
            status,
            outcome.path,
            outcome.found,
            outcome.wanted,
            outcome.because,
            rule.sentence,
            rule.fix if open_end and not outcome.because else "",
        )


def check_standard(name: str) -> str:
    """Return the name if it is a known version of the standard.

    Raises
    ------
    UsageError
        It is not.
    """
    if name not in STANDARDS:
        raise UsageError(f"there is no standard {name!r}; use {' or '.join(STANDARDS)}")
    return name
