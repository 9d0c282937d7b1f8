"""Build the documentation as a site, with a gallery of the shipped specs; any warning is an error.

    pip install -c constraints.txt -e '.[docs]' && python docs/site.py build/site

Pages are those of docs/ and README.md; the gallery is computed from the specs.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bertc.api import points
from bertc.cost import estimate
from bertc.cost.units import bytes_text, duration_text, flops_text
from bertc.lab.starting.gallery import gallery

ROOT = Path(__file__).parent.parent
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md")
"""Pages next to README that links lead to."""
CONFIGURATION = """\
site_name: bertc
site_description: A compiler for text encoders
docs_dir: pages
site_dir: built
theme:
  name: material
  features: [navigation.sections, navigation.indexes, content.code.copy, search.highlight]
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
markdown_extensions:
  - tables
  - pymdownx.superfences
"""
GROUPS = {
    "Tutorial": ("tutorial",),
    "How-to": "how-to",
    "Reference": (
        "language", "commands", "python", "tasks", "own", "prepared", "estimates", "interop",
        "reliability", "measured",
    ),
    "Published tables": "tables",
    "The map": (
        "architecture", "ideas", "new-kinds", "step", "fidelity", "contributing", "changelog",
    ),
}  # fmt: skip
"""Pages by group, as README names them, or a folder of which all are."""
DEVICE = "h200"


def pages(folder: Path) -> None:
    """Write the pages: those of docs/, README as the first one, and the gallery."""
    shutil.copytree(
        ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py", "*.ipynb", "results")
    )
    for name in OUTSIDE:
        (folder / name.lower()).write_text(_page(name), encoding="utf-8")
    (folder / "index.md").write_text(_page("README.md"), encoding="utf-8")
    (folder / "gallery.md").write_text("\n".join(gallery_lines()) + "\n", encoding="utf-8")
    for page in folder.rglob("*.md"):
        above = "../" * len(page.relative_to(folder).parts[:-1])
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("](../README.md", f"]({above}index.md"), encoding="utf-8")


def _page(name: str) -> str:
    """A page of the root as one of the site: its links lead to pages next to it."""
    text = (ROOT / name).read_text(encoding="utf-8")
    text = re.sub(r"\]\(docs/notebooks[^)]*\)", "](how-to/begin.md)", text)
    for name in OUTSIDE:
        text = text.replace(f"]({name}", f"]({name.lower()}")
    return text.replace("](docs/", "](")


def gallery_lines() -> Iterator[str]:
    """The gallery: a row a spec with its paper, what it costs, and the command that trains it."""
    yield "# Shipped specs\n"
    yield (
        f"`bertc train NAME --set data=...` trains one. Costs are estimates for one "
        f"{DEVICE.upper()}, without evaluations; `bertc build NAME --emit resolved` has every "
        "setting.\n"
    )
    yield "| spec | parameters | training | memory | time |"
    yield "|---|---|---|---|---|"
    for shipped in gallery():
        first = points(shipped.name)[0]
        costs = estimate(first, DEVICE)
        cost = (flops_text(costs.flops.train_total), bytes_text(costs.memory.peak_bytes),
                duration_text(costs.time.seconds_total))  # fmt: skip
        about = ", ".join(filter(None, [shipped.sentence, shipped.paper]))
        yield f"| **{shipped.name}**<br>{about} | {shipped.size} | {' | '.join(cost)} |"


def navigation(folder: Path) -> str:
    """The menu of the site, as lines of its configuration."""
    lines = ["nav:", "  - index.md", "  - gallery.md"]
    for group, names in GROUPS.items():
        files = [f"{name}.md" for name in names]
        if isinstance(names, str):
            files = [f"{names}/{path.name}" for path in sorted((folder / names).glob("*.md"))]
        lines += [f"  - {group}:", *(f"      - {page}" for page in files)]
    return "\n".join(lines) + "\n"


def build(out: Path) -> int:
    """Build the site into a folder, and return the exit code of its builder."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        pages(root / "pages")
        (root / "mkdocs.yml").write_text(CONFIGURATION + navigation(root / "pages"))
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        ended = subprocess.run(command, cwd=root, check=False)
        if ended.returncode == 0:
            shutil.copytree(root / "built", out, dirs_exist_ok=True)
    return ended.returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder of the site")
    sys.exit(build(parser.parse_args().out))
