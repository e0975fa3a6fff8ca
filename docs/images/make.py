"""Make the pictures of the README from a real run: ``python docs/images/make.py``.

Needs tmux and Chromium besides the package with its extra ``pipeline``. The terminal
is a real one: its screen at the end of the run becomes an SVG, with the colours; the
words about the loss and the fault are marked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
COLUMNS, LINES = 100, 46
LIMIT_S = 180
SHOWN_RULES = ("B1", "B3")
HOME = "/home/you"  # in the place of the temporary folder
MARKED = {r"was killed|in doubt": "bold yellow", r"\w+ FAIL\b": "bold red"}

# Rich's own template fetches its font from the web; a monospaced one is there already.
TEMPLATE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas,
"DejaVu Sans Mono", monospace; }} {styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0"
width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>{chrome}
<g transform="translate({terminal_x}, {terminal_y})"
clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def run_in_terminal(command: str) -> str:
    """Run a command in a terminal; return the screen when it has ended."""
    tmux = ["tmux", "-L", f"pictures-{os.getpid()}"]
    done = "the-end-of-the-run"
    size = ["-x", str(COLUMNS), "-y", str(LINES)]
    start = f"PS1='$ ' exec bash --norc -c '{command}; echo {done}; read'"
    subprocess.run([*tmux, "new-session", "-d", *size, start], check=True)
    try:
        deadline = time.monotonic() + LIMIT_S
        while True:
            screen = subprocess.run(
                [*tmux, "capture-pane", "-e", "-p"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            if done in screen:
                return screen.partition(done)[0].rstrip()
            if time.monotonic() > deadline:
                raise TimeoutError(f"no end within {LIMIT_S} s:\n{screen}")
            time.sleep(0.2)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


def shorten(screen: Text) -> Text:
    """Leave out the verdicts that passed, but for some; mark the loss and the fault."""
    kept: list[Text] = []
    for line in screen.split():
        if "PASS" not in line.plain or line.plain.startswith(SHOWN_RULES):
            kept.append(line)
        elif kept[-1].plain != "...":
            kept.append(Text("..."))
    text = Text("\n").join(kept)
    for words, style in MARKED.items():
        text.highlight_regex(words, style)
    return text


def draw_terminal(screen: str, target: Path) -> None:
    """Write a screen with its colours as SVG."""
    with Path("/dev/null").open("w") as nowhere:
        console = Console(width=COLUMNS, record=True, file=nowhere)
        console.print(shorten(Text.from_ansi(f"$ bus demo --no-spark\n{screen}")))
        svg = console.export_svg(title="bus demo", code_format=TEMPLATE)
    target.write_text(svg)


def photograph(page: Path, target: Path) -> None:
    """Write what Chromium shows of a page as PNG."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no Chromium found")
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                browser,
                *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-background-networking", "--disable-sync"),
                *("--hide-scrollbars", f"--user-data-dir={profile}"),
                *("--window-size=1100,830", f"--screenshot={target}"),
                page.resolve().as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=LIMIT_S,
        )


def main() -> None:
    """Draw a run that passes, and the report of one with a planted fault."""
    with tempfile.TemporaryDirectory() as folder:
        bus = Path(sys.executable).with_name("bus")
        screen = run_in_terminal(f"cd {folder} && {bus} demo --no-spark")
        draw_terminal(screen.replace(folder, HOME), HERE / "demo.svg")
        planted = [bus, "demo", "--plant", "duplicate", "--out", "planted"]
        subprocess.run(planted, cwd=folder, check=False, capture_output=True)
        report = Path(folder, "planted", "report.html")
        report.write_text(report.read_text().replace(folder, HOME))
        photograph(report, HERE / "report.png")


if __name__ == "__main__":
    main()
