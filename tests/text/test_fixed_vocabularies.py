"""Vocabularies that no text decides: ids as transformers has them, and texts that they refuse."""

import json
import random
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, EsmTokenizer
from transformers.models.esmc.tokenization_esmc import SEQUENCE_VOCAB, EsmcTokenizer

from bertc.base.diagnostics import DataError
from bertc.base.diagnostics.errors import UnknownTokensError
from bertc.base.storage.place import FolderAt
from bertc.hub.leaving.target import padding
from bertc.ir.learning import Embed
from bertc.ir.vocabulary import SPECIALS_BY_MODEL, Characters, Fixed, Kmers, Listed, TokenizerFile
from bertc.tasks.corpus import prepare
from bertc.tasks.examples.encode import encode
from bertc.tasks.examples.task_rows import notes_on_cuts
from bertc.tasks.layouts.example import SearchExample
from bertc.text.prepared.making import begin_preparing, make_parts
from bertc.text.shards import Encode
from bertc.text.vocab.fixed import fixed_vocabulary
from bertc.text.vocab.vocabulary import Vocabulary, load_vocabulary
from tests.fixes import found

from .conftest import resolved
from .test_prepare import Notes

AMINO = "LAGVSERTIDPKQNFYMHWCXBUZO.-"
SMILES = ["C", "N", "Cl", "Br", "[nH]", "[MASK]", "(", ")", "1", "=", "a<s>b", "[O-]"]
KINDS: dict[str, Fixed] = {
    "esm": Characters(alphabet=AMINO, specials="esm"),
    "esmc": Characters(alphabet=f"{AMINO}|", specials="esmc", multiple=64),
    "letters": Characters(alphabet="ab c]^-\\[&~é鶏", case=False),
    "overlapping": Kmers(k=3, alphabet="ACGT"),
    "odd": Kmers(k=2, alphabet="]-^\\Aé", case=False),
    "apart": Kmers(k=3, alphabet="ACGT", step=3),
    "nt": Kmers(k=6, alphabet="ATCG", step=6, specials="nt"),
    "items": Listed(path="list.txt"),
    "smiles": Listed(path="list.txt", pattern=r"\[[^\]]+\]|Br|Cl|[A-Z]"),
}
SPELLED = ["[MASK]", "<mask>", "[UNK]", "<unk>", "<s>", "[CLS]", "<cls>", "<eos>", "<null_1>"]
ODD = [*"xjaAN<\n\t\u2028\x1c\x85é鶏\0", "  "]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.txt").write_text("\n".join(SMILES) + "\n")


def strings(tokens: list[str], number: int) -> Iterator[str]:
    """Random texts of tokens, of what spells special ones, of other letters and white space."""
    rng = random.Random(len(tokens))
    yield from ("", " ", "A")
    for _ in range(number):
        sorts = rng.choices([tokens, ODD, SPELLED], (8, 2, 1), k=rng.randrange(24))
        yield "".join(rng.choice(sort) + rng.choice(["", "", " "]) for sort in sorts)


def tokens_of(vocabulary: Vocabulary) -> list[str]:
    return [vocabulary.token(number) for number in range(vocabulary.size)]


def written(model: str, **files: object) -> Path:
    (folder := Path(model)).mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": model.split(",")[0]}))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def ids(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    alone = {"return_attention_mask": False, "return_token_type_ids": False}  # others take longer
    return tokenizer(texts, **alone)["input_ids"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_reader_gives_equal_ids(kind: str) -> None:
    vocabulary = fixed_vocabulary(node := KINDS[kind])
    tokens = tokens_of(vocabulary)
    assert len({*tokens}) == vocabulary.size == (node.size or len(SMILES) + 4)
    assert vocabulary.word_start.all()
    texts, readers = [*strings(tokens, 10_000)], {}
    wanted, pair = vocabulary.tokenizer.encode_batch(texts), vocabulary.tokenizer.encode("A", "C")
    for model in ("bert", "esm", "esmc", "modernbert"):
        vocabulary.save(written(model))
        theirs = AutoTokenizer.from_pretrained(model)
        readers[type(theirs), theirs.backend_tokenizer.to_str()] = theirs
        assert theirs("A", "C", return_token_type_ids=True)["token_type_ids"] == pair.type_ids
        again = load_vocabulary(TokenizerFile(path=model))
        assert again.tokenizer.to_str() == vocabulary.tokenizer.to_str()
        assert again.named == vocabulary.named
    for theirs in readers.values():  # of those that are one class with one file, one reads all
        assert ids(theirs, texts) == [encoding.ids for encoding in wanted]
    read = Encode(vocabulary.tokenizer.to_str(), "whole")([(text, False) for text in texts])[0]
    assert not vocabulary.special[read].any(), "training reads what spells a special token as text"
    if not isinstance(node, Listed):
        program = resolved("vocab=words(50)").model_copy(update={"vocabulary": node})
        assert padding(program) == vocabulary.pad


def test_the_order_of_tokens_is_that_of_releases() -> None:
    (first, last), amino = SPECIALS_BY_MODEL["esm"], [*AMINO]
    assert tokens_of(fixed_vocabulary(KINDS["esm"])) == [*first, *amino, *last]
    assert tokens_of(fixed_vocabulary(KINDS["esmc"])) == SEQUENCE_VOCAB
    assert fixed_vocabulary(KINDS["nt"]).size == 4107  # nucleotide_transformer/tokenizers.py
    lines = tokens_of(fixed_vocabulary(KINDS["items"]))
    assert lines == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *SMILES]


def test_kmers_overlap_or_follow_one_another() -> None:
    whole, apart = (fixed_vocabulary(KINDS[kind]).tokenizer for kind in ("overlapping", "apart"))
    whole.encode_special_tokens = True
    for text in (text.replace("\x1c", "x") for text in strings([*"ACGT"], 500)):
        words = ["".join(c if c in "ACGT" else "?" for c in word) for word in text.split()]
        cut = [[w[i : i + 3] for i in range(len(w) - 2)] or ["?"] for w in words]
        wanted = [part if "?" not in part else "[UNK]" for parts in cut for part in parts]
        for written_so in (text, " ".join(w for parts in cut for w in parts).replace("?", "N")):
            assert whole.encode(written_so, add_special_tokens=False).tokens == wanted, text
    encoding = apart.encode("ACGTNACGTAC x", add_special_tokens=False)
    assert encoding.tokens == ["ACG", "T", "N", "ACG", "TAC", "[UNK]"]
    assert apart.decode(encoding.ids[:-1]) == "ACGTNACGTAC"


ESM = [*SPECIALS_BY_MODEL["esm"][0], *AMINO, *SPECIALS_BY_MODEL["esm"][1]]
NT = [*SPECIALS_BY_MODEL["nt"][0], *map("".join, product("ATCG", repeat=6)), *"ATCGN"]
NT += ["<eos>", "<bos>"]
FOLDERS = {
    "bare": (ESM, {}), "named": (ESM, {"tokenizer_class": "EsmTokenizer", "mask_token": "<mask>"}),
    "nt": (NT, {"tokenizer_class": "EsmTokenizer", "eos_token": None}), "saved": (ESM, None),
    "esmc": (SEQUENCE_VOCAB, None), "mixed": ([*ESM, "AG", "AGVSE", "GV", "x]-"], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_of_esm_are_read_as_their_class_reads(name: str) -> None:
    tokens, config = FOLDERS[name]
    folder = written("esmc" if name == "esmc" else "esm")
    (folder / "vocab.txt").write_text("\n".join(tokens))
    if config:
        written("esm", tokenizer_config=config)
    elif config is None:
        saved = EsmcTokenizer() if name == "esmc" else EsmTokenizer(str(folder / "vocab.txt"))
        saved.save_pretrained(folder)
    theirs, texts = AutoTokenizer.from_pretrained(folder), [*strings(tokens, 10_000)]
    vocabulary = load_vocabulary(TokenizerFile(path=str(folder)))
    wanted = ids(theirs, texts)
    assert [encoding.ids for encoding in vocabulary.tokenizer.encode_batch(texts)] == wanted
    assert tokens_of(vocabulary) == tokens
    assert vocabulary.word_start.all()
    vocabulary.save(written("esm,again"))
    again = AutoTokenizer.from_pretrained("esm,again")
    assert (type(again), ids(again, texts[:900])) == (type(theirs), wanted[:900])


WRONG = {
    "characters('ACGTA')": ("E110", "the alphabet has 'A' twice", '"ACGT"'),
    "characters('')": ("E109", "`alphabet` is empty", ""),
    "kmers(6, '')": ("E109", "`alphabet` is empty", ""),
    "kmers(12, 'ACGTN')": ("E110", "5 letters make 244,140,625 words of 12", "10,000,000"),
    "kmers(6, 'ACGT', step=2)": ("E110", "no steps of 2 letters", "step=1 or step=6"),
    "listed('twice.txt')": ("E212", 'twice.txt:3: "a" is in line 1 too', "each token once"),
    "listed('gap.txt')": ("E212", "gap.txt:2: an empty line", "one token a line"),
    "listed('counts.txt')": ("E212", 'counts.txt:1: "a 7" is never read', "pattern="),
    "listed('lists.txt')": ("E212", "lists.txt is not there", "did you mean"),
    "listed('list.txt', '(')": ("E212", 'pattern="(" is no regular expression', "Oniguruma"),
}  # fmt: skip


@pytest.mark.parametrize("vocab", WRONG)
def test_mistakes_are_named_with_place_and_remedy(vocab: str) -> None:
    Path("twice.txt").write_text("a\nb\na\n")
    Path("gap.txt").write_text("a\n\nb\n")
    Path("counts.txt").write_text("a 7\nb 5\n")
    (mistake,) = found(f"vocab={vocab}").found
    code, message, help = WRONG[vocab]
    assert mistake.code == code
    assert message in mistake.message
    assert help in mistake.help
    assert mistake.span.text in (f"vocab={vocab}", vocab, "''")


@pytest.mark.parametrize(
    "vocab", ["characters('ACGT'{})", "kmers(3, 'ACGT'{})", "listed('acgt'{})"]
)
def test_text_of_other_letters_is_refused_unless_it_is_allowed(vocab: str) -> None:
    Path("acgt").write_text("ACGT\nTTAG\n")
    lines = ["nnnn NNNN"] + ["ACGT TTAG"] * 61
    Path("dna.txt").write_text("\n".join(lines))
    data = "data=files('dna.txt', sentences=lines) seq=16 batch=2 steps=2 holdout=1%"

    def program(more: str):
        return resolved(f"vocab={vocab.format(more)} {data}")

    for more in ("", ", unknown=1.5%"):
        with pytest.raises(UnknownTokensError, match=r"1.6\d% .* of dna.txt are unknown") as no:
            prepare(program(more), Path("cache"), Notes())
        assert "unknown=2% reads it" in no.value.help
    prepare(program(", unknown=2%"), Path("cache"), notes := Notes())
    assert re.search(
        r"1.6\d% .* of dna.txt are unknown, most often (n, N|nnnn, NNNN)$", notes.notes[0]
    )
    work = begin_preparing(program(""), FolderAt("parts"), Path("cache"), Notes())
    with pytest.raises(DataError, match="of dna.txt are unknown"):
        make_parts(work, work.plan.parts, Notes())
    assert not [*Path("parts").glob("*/train.ids")]


def test_examples_of_unknown_letters_are_reported() -> None:
    vocabulary, task = fixed_vocabulary(Characters(alphabet="ACGT")), Embed()
    reported = ["50.0% of the tokens are unknown to the vocabulary"]
    for text, expected in (("AXXX", reported), ("A", [])):
        rows = encode(task, [SearchExample("1", text, None)], vocabulary, 16, 2)
        assert rows.notes_on_unknown == expected
        named = [f"dev examples: {note}" for note in expected]
        assert notes_on_cuts(task, rows, 1, "dev ", 16) == named
