"""Draw the picture of README, docs/session.svg: a terminal in which bertc really ran.

    python docs/session.py

Commands run in a terminal of their own, on the Markdown pages of this folder as text.
"""

import os
import pty
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

DOCS = Path(__file__).resolve().parent
PICTURE = DOCS / "session.svg"
WIDTH = 108
SPEC = """\
extends quickstart                        # or any other of the shipped specs
layers = 2   hidden = 128   heads = 3     # L=2 H=128 A=3, as the papers write it
vocab = wordpiece(2k)
data = files("text/**/*.md")
seq = 64   steps = 400   eval_every = 400
"""
MENDED = "sed -i 's/heads = 3/heads = 4/' mine.bertc"
COMMANDS = (
    ("cat mine.bertc", 20),
    ("bertc check mine.bertc", 20),
    (f"{MENDED} && bertc check mine.bertc", 20),
    ("bertc estimate bert-tiny mine.bertc --set steps=400 --device a100 | head -3", 3),
    ("bertc train mine.bertc", 4),
    ("ls runs/mine", 9),
)
"""Commands, and how many of their last lines are shown."""


def output(command: str, folder: Path) -> list[str]:
    """Run a command in a terminal; return its lines as they finally look, colours included.

    Raises:
        OSError: if there are no terminals here.
    """
    ours, theirs = pty.openpty()
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": paths, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    running = subprocess.Popen(
        command, shell=True, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = bytearray()
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not part:
            break
        written += part
    os.close(ours)
    running.wait()
    lines = written.decode().replace("\r\n", "\n").split("\n")
    # A line of progress is drawn over: what counts is its last state.
    last = (re.split(r"\r|\x1b\[2?K", line)[-1] for line in lines)
    return [line for line in last if line.strip()]


def picture() -> str:
    """The session as SVG, without fonts from elsewhere."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "text").symlink_to(DOCS)
        (folder / "mine.bertc").write_text(SPEC)
        for command, lines in COMMANDS:
            console.print(Text(f"$ {command}", style="bold green"))
            for line in output(command, folder)[-lines:]:
                console.print(Text.from_ansi(line))
            console.print()
    svg = console.export_svg(title="bertc", unique_id="session")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
