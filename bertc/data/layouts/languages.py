"""The language of a text, guessed from its script and its commonest words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from bertc.diagnostics import UsageError

SCRIPTS = {
    "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "CJK": "zh", "GREEK": "el", "HEBREW": "he",
    "ARABIC": "ar", "DEVANAGARI": "hi", "THAI": "th", "CYRILLIC": "ru",
}  # fmt: skip
"""Scripts, and the language that has most text in each; the first that is common decides."""
CODES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy "
    "da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu "
    "hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb "
    "lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om "
    "or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv "
    "sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
"""ISO 639-1."""
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
MOST_OF_ONE = 0.9
"""Share of samples in its language from which a text is of one."""
FEWEST = 0.05
"""Least share of words that are function words, or of letters in a script, of a known language."""


def language_named(text: str) -> str:
    """Read a code of ISO 639, with a script or country behind it if it has one; "" stays.

    Those of three letters are not looked up.

    Raises:
        UsageError: it is none.
    """
    code = text.strip()
    first = re.split("[-_]", code.lower())[0]
    if not code or first in CODES.split() or re.fullmatch("[a-z]{3}", first):
        return code
    raise UsageError(
        f"--language {code[:40]}: no language has this code", help="--language en, de, sw, zh, ..."
    )


def languages_of(samples: Iterable[str]) -> tuple[str, ...]:
    """The languages of samples of one text; one alone where nine of ten samples are of it."""
    counts = Counter(filter(None, map(language_of, samples)))
    most = counts.most_common(1)
    if most and most[0][1] >= MOST_OF_ONE * counts.total():
        return (most[0][0],)
    return tuple(sorted(counts))


def language_of(text: str) -> str:
    """The ISO 639-1 code of a text's language, "" if it is not clear."""
    names = (unicodedata.name(letter, "") for letter in text[:20_000] if letter.isalpha())
    letters = Counter(name.partition(" ")[0] for name in names)
    for script, code in SCRIPTS.items():
        latin = 0 if code == "ja" else letters["LATIN"]
        if letters[script] > max(FEWEST * letters.total(), latin):
            return code
    words = Counter(re.findall(r"\w+", text.lower()))
    shares = {
        code: sum(words[word] for word in spelled.split())
        for code, spelled in FUNCTION_WORDS.items()
    }
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] > FEWEST * words.total() else ""
