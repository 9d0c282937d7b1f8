"""Text to sentences: found by a library, or one a line."""

import re

import sentencex

from bertc.ir.data import Sentences

_LINE_END = re.compile(r"\r\n?|\x0b|\x0c|\x85|\u2028")
_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n|\u2029")


def split(text: str, how: Sentences) -> list[str]:
    """The sentences of a text in order, none empty, white space within them made single spaces.

    A blank line always ends a sentence. English rules decide the rest. Of a text that is to stay
    ``whole`` they are its lines, ends of lines included.
    """
    if how == "whole":
        return text.splitlines(keepends=True)
    text = _LINE_END.sub("\n", text)
    if how == "lines":
        found = text.split("\n")
    else:
        found = [
            sentence
            for paragraph in _PARAGRAPH_END.split(text)
            for sentence in sentencex.segment("en", paragraph)
        ]
    return [clean for sentence in found if (clean := " ".join(sentence.split()))]
