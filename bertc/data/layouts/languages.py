"""The language of a text, guessed from its script and its commonest words."""

import re
import unicodedata
from collections import Counter

SCRIPTS = {
    "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "CJK": "zh", "GREEK": "el", "HEBREW": "he",
    "ARABIC": "ar", "DEVANAGARI": "hi", "THAI": "th", "CYRILLIC": "ru",
}  # fmt: skip
"""Scripts, and the language that has most text in each; the first that is common decides."""
FUNCTION_WORDS = {
    "en": "the of and to is that it was for with",
    "de": "der die und das ist nicht ein zu mit von",
    "fr": "le la les et des est une dans pour que",
    "es": "el los las y que es una por para con",
    "it": "il di che la per una non sono del gli",
    "pt": "o os as que não uma para com do da",
    "nl": "de het een en van niet dat is op voor",
    "pl": "i w nie na się że do jest z to",
    "sv": "och att det som en på är för med inte",
    "sw": "ya na wa kwa ni katika za la kuwa cha",
    "tr": "ve bir bu için ile da de olarak çok gibi",
    "vi": "và của là có được trong cho không một các",
}
FEWEST = 0.05
"""Least share of words that are function words, or of letters in a script, of a known language."""


def language_of(text: str) -> str:
    """The ISO 639-1 code of a text's language, "" if it is not clear."""
    letters = Counter(_script(each) for each in text[:20_000] if each.isalpha())
    total = sum(letters.values())
    for script, code in SCRIPTS.items():
        if letters[script] > max(FEWEST * total, letters["LATIN"]) or (
            code == "ja" and letters[script] > FEWEST * total
        ):
            return code
    words = re.findall(r"\w+", text.lower())
    shares = {
        code: sum(word in known for word in words)
        for code, spelled in FUNCTION_WORDS.items()
        for known in [frozenset(spelled.split())]
    }
    best = max(shares, key=lambda code: shares[code])
    return best if shares[best] > FEWEST * len(words) else ""


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
