"""Texts that show the usual mistakes of ports, as a network reads them."""

from dataclasses import dataclass

from bertc.lab_api import Tokenizer

LONGEST = 512
"""Tokens of the longest row at least; where a network has room for fewer, a longer text is cut."""
WORDS = 64
"""Tokens of the vocabulary in the longest row, evenly spaced."""
BATCH = 1
PLAIN = "The quick brown fox jumps over 13 lazy dogs, doesn't it?"
TEXTS = {
    "empty": "",
    "one word": "the",
    "plain": PLAIN,
    "blanks": "  two  blanks,\ta tab,\na line,\u00a0no break \u3000wide \u200bnone \r\n",
    "accents": "Ångström naïve CAFÉ İstanbul Straße ﬁne; e\u0301 is é",
    "scripts": "Привет, мир! שָׁלוֹם مَرْحَبًا हिन्दी ไทย",
    "CJK": "東京は日本の首都です。我爱北京，서울도!",
    "emoji": "😀 ok 👩\u200d👩\u200d👧 🇫🇷 ❤\ufe0f",
}
"""Of them ports get wrong: rows without words, normalisation, characters beyond one word."""
PAIR = ("Is the sky blue?", "Yes, it is: on most days, at least.")


@dataclass(frozen=True)
class Row:
    """A text or a pair as the network reads it, and the positions whose states are compared.

    Rows of one ``batch`` are read together, the shorter ones padded.
    """

    what: str
    text: str
    ids: tuple[int, ...]
    segments: tuple[int, ...]
    positions: tuple[int, ...]
    pair: str | None = None
    batch: int | None = None


def proof_rows(tokenizer: Tokenizer) -> list[Row]:
    """The rows that a network is compared on; those without a token are left out."""
    mask = tokenizer.vocabulary.mask

    def row(what: str, text: str, pair: str | None = None, batch: int | None = None) -> Row:
        read = tokenizer(text if pair is None else (text, pair))
        ids, segments = (read[name][0].tolist() for name in ("token_ids", "segment_ids"))
        places = {0, len(ids) // 2, len(ids) - 1} | ({ids.index(mask)} if mask in ids else set())
        return Row(what, text, (*ids,), (*segments,), (*sorted(places),), pair, batch)

    rows = [row(what, text) for what, text in TEXTS.items()]
    masked = f"Paris is the {tokenizer.vocabulary.token(mask)} of France."
    rows += [row("mask", masked), row("pair", *PAIR)]
    rows += [row("padded", "the dog", batch=BATCH)]
    rows += [row("longest", _long_text(tokenizer), batch=BATCH)]
    return [row for row in rows if row.ids]


def _long_text(tokenizer: Tokenizer) -> str:
    """A text of ``LONGEST`` tokens and some more, or of more than the network has room for."""
    vocabulary, most = tokenizer.vocabulary, min(LONGEST, tokenizer.longest)
    known = [number for number in range(vocabulary.size) if not vocabulary.special[number]]
    drawn = known[:: max(1, len(known) // WORDS)]
    sentence = " ".join([PLAIN, *(vocabulary.tokenizer.decode([number]) for number in drawn)])
    text = sentence
    for _ in range(LONGEST):  # a sentence may have no token
        if len(tokenizer(text)["token_ids"][0]) >= most:
            break
        text += f" {sentence}"
    # One more, so that a row that is full has lost some.
    return f"{text} {sentence}" if most == tokenizer.longest else text
