"""Images described by hand, for queries: only what resolving looks at."""

from __future__ import annotations

from types import SimpleNamespace


def axes_of(names):
    kinds = {"t": "time", "c": "channel"}
    return [SimpleNamespace(name=n, type=kinds.get(n, "space"), unit=None) for n in names]


def image_of(axes, levels, strict_error=None, is_label=False, uri="memory://described", arrays=None):
    """``levels``: dicts with shape, ratio, origin, and scale and translation where physical units matter."""
    axes = axes_of(axes) if isinstance(axes, str) else axes
    rank = len(axes)
    made = [
        SimpleNamespace(
            path=str(i),
            shape=tuple(level["shape"]),
            scale_to_reference=tuple(level.get("ratio", [1.0] * rank)),
            origin_reference_index=tuple(level.get("origin", [0.0] * rank)),
            scale=tuple(level.get("scale", [1.0] * rank)),
            translation=tuple(level.get("translation", [0.0] * rank)),
            array=None if arrays is None else arrays[i],
        )
        for i, level in enumerate(levels)
    ]
    return SimpleNamespace(
        uri=uri, path="", axes=axes, levels=made, strict_error=strict_error, is_label=is_label
    )
