"""docs/language.md: its examples are sound, and its tables are what the IR says.

``python tests/syntax/test_docs.py`` writes the tables anew.
"""

import re
from pathlib import Path

import pytest

from bertc import passes, syntax
from bertc.diagnostics import Diagnostics
from bertc.ir.program.settings import STAGE_SETTINGS, Settings, default_source
from bertc.syntax.read.shapes import (
    ChoiceShape,
    EitherShape,
    KindShape,
    Limits,
    ListShape,
    RealShape,
    Shape,
    SumShape,
    TextShape,
    TruthShape,
    WholeShape,
    arguments,
    required,
    setting_shape,
)
from bertc.syntax.write.show import show_value

PATH = Path(__file__).parents[2] / "docs" / "language.md"
TEXT = PATH.read_text(encoding="utf-8")


def allowed(shape: Shape) -> str:
    """What may be written, in a table's cell."""
    match shape:
        case WholeShape():
            return "whole number" + limits(shape.bounds)
        case RealShape():
            return "number" + limits(shape.bounds)
        case TruthShape():
            return "`true` `false`"
        case TextShape():
            return "text"
        case ChoiceShape() | KindShape():
            return " ".join(f"`{option}`" for option in shape.options)
        case ListShape():
            return f"list of {shape.length or ''} {allowed(shape.item)}".replace("  ", " ")
        case SumShape():
            return "sum of " + allowed(shape.inner)
        case EitherShape():
            return " or ".join(map(allowed, shape.options))


def limits(bounds: Limits) -> str:
    signs = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
    words = [
        f"{sign} {getattr(bounds, name):,}"
        for name, sign in signs
        if getattr(bounds, name) is not None
    ]
    return f" {', '.join(words)}" if words else ""


def settings_table() -> str:
    rows = ["| setting | what it is | values | default | from |", "|---|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        extra = field.json_schema_extra
        alias = f" `{extra['alias']}`" if isinstance(extra, dict) and extra["alias"] else ""
        derived = field.is_required()
        value = "" if derived else f"`{show_value(field.default, setting_shape(name))}`"
        source = default_source(name)
        cells = [f"`{name}`{alias}", field.description or "", allowed(setting_shape(name))]
        cells += [source if derived else value, "" if derived else source]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def kinds(shape: Shape) -> dict[str, type]:
    """Kinds a shape allows, and those their arguments allow."""
    match shape:
        case KindShape():
            found = dict(shape.options) if shape.named else {}
            for node in shape.options.values():
                for inner in arguments(node).values():
                    found |= {k: v for k, v in kinds(inner).items() if k not in found}
            return found
        case SumShape():
            return kinds(shape.inner)
        case EitherShape():
            return {k: v for option in shape.options for k, v in kinds(option).items()}
    return {}


def kinds_table() -> str:
    rows = ["| setting | kind | arguments |", "|---|---|---|"]
    for setting in Settings.model_fields:
        for kind, node in kinds(setting_shape(setting)).items():
            texts = []
            shapes = arguments(node)
            for index, name in enumerate(
                [*node.positional, *(n for n in shapes if n not in node.positional)]
            ):
                bar = r"\| " if index == len(node.positional) else ""
                if name in required(node):
                    texts.append(f"{bar}{name}!")
                else:
                    default = show_value(node.model_fields[name].default, shapes[name])
                    texts.append(f"{bar}{name}={default}")
            shown = f"`{' '.join(texts)}`" if texts else ""
            rows.append(f"| {setting} | `{kind}` | {shown} |")
    return "\n".join(rows)


TABLES = {
    "stage-settings": lambda: (
        "A stage may change " + ", ".join(f"`{name}`" for name in STAGE_SETTINGS) + "."
    ),
    "settings-table": settings_table,
    "kinds-table": kinds_table,
}


def written(text: str, name: str, content: str) -> str:
    """The page with one table put between its marks."""
    start = text.index(f"<!-- {name} -->") + len(f"<!-- {name} -->")
    end = text.index("<!-- end -->", start)
    return f"{text[:start]}\n{content}\n{text[end:]}"


EXAMPLES = re.findall(r"```bertc\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples(example: str) -> None:
    diagnostics = Diagnostics()
    for program in syntax.load(example, (), diagnostics):
        passes.complete(program, diagnostics)
    assert diagnostics.found == []


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str) -> None:
    assert written(TEXT, name, TABLES[name]()) == TEXT, "run python tests/syntax/test_docs.py"


if __name__ == "__main__":
    for table, content in TABLES.items():
        TEXT = written(TEXT, table, content())
    PATH.write_text(TEXT, encoding="utf-8")
