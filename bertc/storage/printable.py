"""Text of others as it may be shown: without characters that act on a terminal, or hide."""


def printable(text: str) -> str:
    """The text with every character that is not printable escaped, marks of direction included."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
