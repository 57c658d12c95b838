"""The array standard: rules as data, and what follows them or not."""

from napari_decant.standard._check import check
from napari_decant.standard._export import ExportReport, export, plan_export
from napari_decant.standard._report import CheckReport, ImageCheck, RuleSummary
from napari_decant.standard._rule import STANDARDS, Finding, Outcome, Rule
from napari_decant.standard._rules import IMAGE_RULES, RULES, STORE_RULES

__all__ = [
    "IMAGE_RULES",
    "RULES",
    "STANDARDS",
    "STORE_RULES",
    "CheckReport",
    "ExportReport",
    "Finding",
    "ImageCheck",
    "Outcome",
    "Rule",
    "RuleSummary",
    "check",
    "export",
    "plan_export",
]
