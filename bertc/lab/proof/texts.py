"""Texts that show the usual mistakes of ports, as a network reads them."""

from bertc import Trained
from bertc.lab.proof.proof import Row

LONGEST = 512
"""Tokens of the longest row at least; where a network has room for fewer, a longer text is cut."""
WORDS = 64
"""Tokens of the vocabulary in the longest row, evenly spaced."""
PLAIN = "The quick brown fox jumps over 13 lazy dogs, doesn't it?"
TEXTS = {
    "empty": "", "one word": "the", "plain": PLAIN,
    "blanks": "  two  blanks,\ta tab,\na line,\u00a0no break \u3000wide \u200bnone \r\n",
    "accents": "Ångström naïve CAFÉ İstanbul Straße ﬁne; e\u0301 is é",
    "scripts": "Привет, мир! שָׁלוֹם مَرْحَبًا हिन्दी ไทย",
    "CJK": "東京は日本の首都です。我爱北京，서울도!",
    "emoji": "😀 ok 👩\u200d👩\u200d👧 🇫🇷 ❤\ufe0f", "mask": "Paris is the {mask} of France.",
    "pair": ("Is the sky blue?", "Yes, it is: on most days, at least."), "padded": "the dog",
    "longest": "",
}  # fmt: skip
"""The last two are read in one batch."""


def proof_rows(model: Trained) -> tuple[Row, ...]:
    """The rows that a network is compared on; those without a token are left out."""
    vocabulary, rows = model.tokenizer.vocabulary, list[Row]()
    spelled, long = vocabulary.token(vocabulary.mask), _long_text(model)
    for what, texts in TEXTS.items():
        text, pair = (texts, None) if isinstance(texts, str) else texts
        text = long if what == "longest" else text.replace("{mask}", spelled)
        read = model.tokenizer(text if pair is None else (text, pair))
        ids, segments = (read[name][0].tolist() for name in ("token_ids", "segment_ids"))
        masks = [ids.index(vocabulary.mask)] if vocabulary.mask in ids else []
        places = sorted({0, len(ids) // 2, len(ids) - 1, *masks})
        batch = 1 if what in ("padded", "longest") else None
        known = {"what": what, "text": text, "pair": pair, "batch": batch}
        rows.append(Row(**known, ids=ids, segments=segments, positions=places))
    return tuple(row for row in rows if row.ids)


def _long_text(model: Trained) -> str:
    """A text of ``LONGEST`` tokens and some more, or of more than the network has room for."""
    tokenizer, vocabulary = model.tokenizer, model.tokenizer.vocabulary
    known = [number for number in range(vocabulary.size) if not vocabulary.special[number]]
    drawn = known[:: max(1, len(known) // WORDS)]
    sentence = " ".join([PLAIN, *(vocabulary.tokenizer.decode([number]) for number in drawn)])
    most, text = min(LONGEST, tokenizer.longest), sentence
    for _ in range(LONGEST):  # a sentence may have no token
        if len(tokenizer(text)["token_ids"][0]) >= most:
            break
        text += f" {sentence}"
    # One more, so that a row that is full has lost some.
    return f"{text} {sentence}" if most == tokenizer.longest else text
