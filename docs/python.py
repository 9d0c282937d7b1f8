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
from bertc import lab_api

PAGE = Path(__file__).parent / "python.md"
EXAMPLES = Path(__file__).parent.parent / "tests" / "api_examples.py"
BEGINNING = """\
# Python

`help(bertc.NAME)` has types, units and errors. Kinds are names too: `bertc.mlm(p=0.3)`.
From "Languages and programs" on names are those of `bertc.lab_api`, with which the lab is written.
The examples run in order, next to a `text.txt`.
"""
GROUPS = {
    "Specs": "Spec show",
    "Trained models": "open",
    "Functions": "resolve estimate build train load",
    "Languages and programs": "findings remedies points programs formatted model_weights "
    "spec_text shipped_specs schema quote space",
    "Costs": "step_flops most_steps device_named units",
    "Steps and text": "survey Stepper",
    "Runs": "RunFolder weights_digest shown_figures loss_title mean_score settings_texts changed "
    "divide_by_temperatures fit_of_head",
    "Networks": "graph_of evaluate_run require_permission",
    "Tables": "Table escaped several",
}
"""Functions, and classes that are called, by title."""
TYPES = {
    "Specs": "Findings Resolved",
    "Trained models": "Opened Trained",
    "Functions": "Estimate BertcError SpecError UsageError DataError MissingInputError "
    "CannotWriteError MachineError StoppedError GivenUpError ResumeRefusedError",
    "Languages and programs": "Diagnostic Expected Program AllowedValues ValueKind Space Interval",
    "Steps and text": "Survey",
    "Runs": "Seen",
    "Networks": "Graph Manner",
}
"""Types of their arguments and results, and errors."""


def lines() -> Iterator[str]:
    """The page in lines: for each group its names, their types, and an example."""
    yield BEGINNING
    _, *parts = EXAMPLES.read_text(encoding="utf-8").split("# %% ")
    examples = dict(part.split("\n", 1) for part in parts)
    for title, names in GROUPS.items():
        yield f"## {title}\n"
        for name in names.split():
            yield f"* `{name}{_arguments(_value(name))}`: {_meaning(name)}"
        if types := TYPES.get(title):
            yield f"\nTypes: {', '.join(f'`{name}`' for name in types.split())}."
        yield f"\n```python\n{examples[title].strip()}\n```\n"


def _value(name: str) -> Any:
    return getattr(bertc if name in bertc.__all__ else lab_api, name)


def _arguments(value: Any) -> str:
    """The arguments of a function with their defaults, without types."""
    if isinstance(value, type | ModuleType):
        return ""
    signature = inspect.signature(value)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    shown = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return re.sub(r"<function .*? at \w+>", "...", shown)


def _meaning(name: str) -> str:
    text = inspect.getdoc(_value(name)) or ""
    first = " ".join(text.split("\n\n")[0].split())
    return first.replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()).rstrip() + "\n", encoding="utf-8")
