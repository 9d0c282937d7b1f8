"""Pages about words, as Markdown: meaning, what may be written, default and source."""

import inspect

from bertc.diagnostics.render import escaped
from bertc.ir.base import Node, call_text
from bertc.syntax.read.shapes import arguments
from bertc.syntax.write.reference import allowed, argument_facts, setting_facts

STAGE_MEANING = "a part of the training, with settings of its own; stages follow each other"
EXTENDS_MEANING = (
    "begin with all settings of another spec: a shipped one, or a file beside or below this"
)


def setting_page(name: str) -> str:
    """The page of a setting."""
    facts = setting_facts(name)
    alias = f" or `{facts.alias}`" if facts.alias else ""
    usual = f"`{facts.default}`, of {facts.source}" if facts.default else facts.source
    lines = [f"**`{name}`**{alias}: {facts.meaning}", facts.values, f"Default: {usual}"]
    return "\n\n".join(filter(None, lines))


def kind_page(kind: str, node: type[Node]) -> str:
    """The page of a kind: how it is written, and what it does."""
    texts = [
        f"{name}={default}" if default else f"{name}=..." for name, default in argument_facts(node)
    ]
    written = call_text(kind, *texts)
    return f"```bertc\n{written}\n```\n\n{_about(node)}"


def argument_page(kind: str, node: type[Node], name: str) -> str:
    """The page of an argument of a kind."""
    shape, default = arguments(node)[name], dict(argument_facts(node))[name]
    usual = f"Default: `{default}`" if default else f"`{kind}` needs it."
    return "\n\n".join((f"**`{name}`** of `{kind}`: {allowed(shape)}", usual, _about(node)))


def spec_page(name: str, text: str) -> str:
    """The page of a spec: its first comment, shown as it is."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(escaped(line.strip("# ")))
    comment = "\n".join(lines).replace("```", "'''")
    return f"**`{escaped(name)}`**" + (f"\n\n```text\n{comment}\n```" if comment else "")


def _about(node: type[Node]) -> str:
    """The description of a class, without what it says to programmers alone."""
    return inspect.cleandoc(node.__doc__ or "").replace("``", "`")
