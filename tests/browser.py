"""Pages in a real browser: every picture loads, nothing sticks out to the right, tables are so."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FRAME = '<iframe style="border:0;width:{width}px;height:900px" srcdoc="{page}"></iframe>'
MEASURE = """<pre id="measured"></pre><script>
window.onload = () => {
  const measured = [...document.querySelectorAll("iframe")].map(frame => {
    const inside = frame.contentDocument, pictures = [...inside.images];
    return {
      pictures: pictures.length,
      broken: pictures.filter(p => !(p.complete && p.naturalWidth > 0)).length,
      width: inside.documentElement.clientWidth,
      scroll: inside.documentElement.scrollWidth,
      loose: [...inside.querySelectorAll("td, th")].filter(
        cell => frame.contentWindow.getComputedStyle(cell).display !== "table-cell").length,
    };
  });
  document.getElementById("measured").textContent = JSON.stringify(measured);
};
</script>"""
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --hide-scrollbars --dump-dom"
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome")


def images(page: str) -> list[str]:
    return re.findall(r"<img[^>]*>", page)


def check_in_browser(page: str, widths: Sequence[int], folder: Path) -> None:
    """Opens the page at these widths, in frames side by side."""
    frames = [FRAME.format(width=width, page=html.escape(page)) for width in widths]
    (folder / "frames.html").write_text("<!doctype html><body>" + "".join(frames) + MEASURE)
    command = [str(BROWSER), *OPTIONS.split(), f"--user-data-dir={folder / 'profile'}"]
    command.append((folder / "frames.html").as_uri())
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="measured">(\[.*?\])</pre>', done.stdout)
    assert found, done.stderr
    for width, measured in zip(widths, json.loads(found[1]), strict=True):
        assert measured["pictures"] == len(images(page))
        assert measured["broken"] == 0
        assert measured["width"] == width
        assert measured["scroll"] <= width
        assert measured["loose"] == 0
