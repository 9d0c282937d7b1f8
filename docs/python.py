"""Write docs/python.md from the public names and tests/api_examples.py.

python docs/python.py
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import bertc

PAGE = Path(__file__).parent / "python.md"
EXAMPLES = Path(__file__).parent.parent / "tests" / "api_examples.py"
BEGINNING = """\
# Python

`help(bertc.NAME)` has types, units and errors. The examples run in order, next to a `text.txt`.
"""
GROUPS = {
    "Specs": "findings remedies resolve points programs formatted show model_weights "
    "spec_text shipped_specs schema quoted space",
    "Costs": "estimate step_flops most_steps device_named units",
    "Training": "survey build train Stepper",
    "Runs": "RunFolder weights_digest shown_figures titled settings_texts changed",
    "Trained models": "load graph_of evaluate_run evaluate_heads",
    "Tables and errors": "Table escaped",
}
"""Functions, and classes that are called, by title."""
TYPES = {
    "Specs": "Diagnostic Resolved Program AllowedValues ValueKind Space Interval",
    "Costs": "Estimate",
    "Training": "Survey",
    "Runs": "Seen",
    "Trained models": "Trained Graph Manner",
    "Tables and errors": "BertcError SpecError UsageError DataError MissingInputError "
    "CannotWriteError MachineError StoppedError GivenUpError ResumeRefusedError",
}
"""Types of their arguments and results, and errors."""


def lines() -> Iterator[str]:
    """The page in lines: for each group a table of its names, their types, and an example."""
    yield BEGINNING
    _, *parts = EXAMPLES.read_text(encoding="utf-8").split("# %% ")
    examples = dict(part.split("\n", 1) for part in parts)
    for title, names in GROUPS.items():
        yield f"## {title}\n\n| name | what it does |\n|---|---|"
        for name in names.split():
            yield f"| `{name}{_arguments(getattr(bertc, name))}` | {_meaning(name)} |"
        yield f"\nTypes: {', '.join(f'`{name}`' for name in TYPES[title].split())}."
        yield f"\n```python\n{examples[title].strip()}\n```\n"


def _arguments(value: Any) -> str:
    """The arguments of a function with their defaults, without types."""
    if isinstance(value, type | ModuleType):
        return ""
    signature = inspect.signature(value)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    shown = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return re.sub(r"<function .*? at \w+>", "...", shown).replace("|", r"\|")


def _meaning(name: str) -> str:
    text = inspect.getdoc(getattr(bertc, name)) or ""
    first = " ".join(text.split("\n\n")[0].split())
    return first.replace("``", "`").replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()).rstrip() + "\n", encoding="utf-8")
