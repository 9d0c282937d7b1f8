"""Splitting of text into sentences, by rules or by lines."""

import re

import sentencex

from bertc.ir.data import Sentences

_LINE_END = re.compile(r"\r\n?|\x0b|\x0c|\x85|\u2028")
_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n|\u2029")


def split_sentences(text: str, how: Sentences) -> list[str]:
    """The non-empty sentences of a text, white space inside normalised to single spaces.

    A blank line always ends a sentence; English rules decide the rest. With ``lines`` each line is
    a sentence; with ``whole`` too, unchanged and with its line end.
    """
    if how == "whole":
        return text.splitlines(keepends=True)
    text = _LINE_END.sub("\n", text)
    if how == "lines":
        raw_sentences = text.split("\n")
    else:
        raw_sentences = [
            sentence
            for paragraph in _PARAGRAPH_END.split(text)
            for sentence in sentencex.segment("en", paragraph)
        ]
    return [clean for sentence in raw_sentences if (clean := " ".join(sentence.split()))]
