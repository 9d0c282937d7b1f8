"""EsmTokenizer, a class of Python alone, as a tokenizer.json of the same ids."""

import re
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

WHITE_SPACE = r"[\s\x1c-\x1f]+"
"""White space as Python's str.split has it."""


def of_esm(hf: Any) -> Tokenizer:
    """The longest token at each place; other letters up to one or to white space are unknown."""
    ids, special = hf.get_vocab(), [str(token) for token in hf.all_special_tokens]
    cls, eos = hf.cls_token, hf.eos_token
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=str(hf.unk_token)))
    # Training reads what spells a special token as text.
    as_text = Regex("|".join(map(re.escape, special)))
    tokenizer.normalizer = normalizers.Replace(as_text, "\ufffd")
    longest_first = sorted(ids.keys() - {*special}, key=lambda token: (-len(token), token))
    tokens = pre_tokenizers.Split(Regex("|".join(map(re.escape, longest_first))), "isolated")
    words = pre_tokenizers.Split(Regex(WHITE_SPACE), "removed")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([tokens, words])
    tokenizer.add_special_tokens(special)
    # The class of Nucleotide Transformer's folders puts no token after a text.
    single = [f"{cls}:0", "$A:0", *([f"{eos}:0"] if eos else [])]
    second = ["$B:1", *([f"{eos}:1"] if eos else [])]
    ends = [(token, ids[token]) for token in (cls, eos) if token]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=[*single, *second], special_tokens=ends
    )
    return tokenizer
