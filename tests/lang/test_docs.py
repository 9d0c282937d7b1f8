"""docs/language.md: its examples are sound, and its tables are what the IR says.
``python tests/lang/test_docs.py`` writes the tables anew.
"""

import re
from pathlib import Path

import pytest

from bertc.ir.program.settings import STAGE_SETTINGS, Settings
from bertc.lang.read.shapes import Shape, arguments, kinds_in, setting_shape
from bertc.lang.write.schema import ValueKind, schema
from tests.fixes import found

PATH = Path(__file__).parents[2] / "docs" / "language.md"
TEXT = PATH.read_text(encoding="utf-8")
WHOLE = re.compile(r"whole number ≥ (\S+), ≤ ([\d,]*\d)")


def settings_table() -> str:
    rows = ["| setting | what it is | values | default, and its source |", "|---|---|---|---|"]
    for facts in schema().values():
        alias = f" `{facts.alias}`" * bool(facts.alias)
        source = facts.source.replace(", Devlin et al. 2019, section 3", "")
        shown = f" ({source})" * (source != "bertc")
        value = f"`{facts.default}`{shown}" if facts.default else source
        values = WHOLE.sub(r"`\1..\2`", facts.values.text)
        rows.append(f"| `{facts.name}`{alias} | {facts.meaning} | {values} | {value} |")
    return "\n".join(rows)


def kinds(shape: Shape) -> dict[str, type]:
    """Kinds a shape allows, and those their arguments allow."""
    found = dict(kinds_in(shape))
    for node in [*found.values()]:
        for inner in arguments(node).values():
            found |= {k: v for k, v in kinds(inner).items() if k not in found}
    return found


def kinds_table() -> str:
    rows = ["| setting | kinds | arguments |", "|---|---|---|"]
    for setting in Settings.model_fields:
        alike = dict[str, list[str]]()
        for kind, node in kinds(setting_shape(setting)).items():
            texts = [
                f"{argument.name}={argument.default}" if argument.default else f"{argument.name}!"
                for argument in ValueKind(kind, node).arguments.values()
            ]
            if (unnamed := len(node.positional)) < len(texts):
                texts[unnamed] = rf"\| {texts[unnamed]}"
            alike.setdefault(f"`{' '.join(texts)}`" if texts else "", []).append(f"`{kind}`")
        rows += [f"| {setting} | {' '.join(named)} | {shown} |" for shown, named in alike.items()]
    return "\n".join(rows)


STAGES = f"A stage may change {', '.join(f'`{name}`' for name in STAGE_SETTINGS)}."
TABLES = {
    "stage-settings": STAGES, "settings-table": settings_table(), "kinds-table": kinds_table(),
}  # fmt: skip


def written(text: str, name: str, content: str) -> str:
    """The page with one table put between its marks."""
    start = text.index(f"<!-- {name} -->") + len(f"<!-- {name} -->")
    end = text.index("<!-- end -->", start)
    return f"{text[:start]}\n{content}\n{text[end:]}"


EXAMPLES = re.findall(r"```bertc\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples(example):
    assert found(example).found == []


@pytest.mark.parametrize("name", TABLES)
def test_tables(name):
    assert written(TEXT, name, TABLES[name]) == TEXT, "run python tests/lang/test_docs.py"


if __name__ == "__main__":
    for table, content in TABLES.items():
        TEXT = written(TEXT, table, content)
    PATH.write_text(TEXT, encoding="utf-8")
