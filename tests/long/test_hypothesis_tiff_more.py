"""As ``test_hypothesis_tiff``, with thousands of layouts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.support.layout_check import assert_comes_back
from tests.support.strategies import tiff_specs
from tests.support.tiffspec import TiffSpec

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@settings(deadline=None, max_examples=3000)
@given(tiff_specs())
def test_every_layout_comes_back(spec: TiffSpec) -> None:
    assert_comes_back(spec)


@settings(deadline=None, max_examples=1000)
@given(tiff_specs(troubled=True))
def test_layouts_with_a_trouble_come_back(spec: TiffSpec) -> None:
    assert_comes_back(spec)
