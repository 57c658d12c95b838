"""What a worker with limited memory runs on each store of the corpus."""

from __future__ import annotations

import json
from typing import Any

from napari_decant.standard import check


def check_location(path: str) -> dict[str, Any]:
    report = check(path)
    json.dumps(report.to_json())
    report.to_html()
    report.to_text(everything=True)
    failed = report.failed()
    return {
        "ok": report.ok,
        "images": len(report.images),
        "failed": len(failed),
        "first": failed[0].found if failed else "",
    }
