"""Tokenizers of folders against transformers: ids, whole rows, and the tokens with a role."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import bertc
from bertc.api import resolve
from bertc.base.diagnostics import BertcError, DataError, SpecError
from bertc.ir.learning.custom_task import Classify
from bertc.ir.vocabulary import Bytes, TokenizerFile, Unigram, Words as WordsNode
from bertc.run.models.runs import import_run
from bertc.tasks.examples.encode import encode
from bertc.tasks.layouts.example import TextExample
from bertc.text.vocab.learned import learn
from bertc.text.vocab.vocabulary import from_tokenizer, load_vocabulary, vocabulary_of
from tests.hub import hf_tokenizers as known
from tests.hub.hf_models import XLNET as XLNET_SIZES, case
from tests.hub.hf_tokenizers import BERT, PLAIN, ROBERTA, WRITTEN, XLNET, Folder, Words, more

ROWS = 1_000
ODD = [
    "The hen's Süß café, naïve ÉCOLE: 12,000 hens in 1, 2,",
    "line\u2028next\u0085next\x0bnext\x0cnext\x1cnext\tnext\u3000next\u00a0next",
    "鶏 once 東京都 and ＦＵＬＬ width, ½ ² Ⅻ ①",
    "emoji 😀👩\u200d👩\u200d👧 flags 🇩🇪",
    "``quoted'' text'' don't we'll",
    "[MASK] the <mask> [SEP] </s> <cls> <sep> <eop> <s> <pad> QuaggaQuagga Quagga quagga <note>",
    "  two  spaces  ",
    "ΑΒΓ ἄνθρωπος İstanbul ǅ ß ﬁ \ufeffbom \u200bzero\u200d \u00ad",
    "\u2581literal \u2581 a\u2581b",
    "नमस्ते दुनिया สวัสดี 한국어 텍스트 مرحبا",
    "x\u0301y\u0327 e\u0301 \u0301",
    "\x00null \x07bell",
    "A.B.C. U.S.A",
]


@pytest.fixture(scope="module")
def words() -> Words:
    """Learned from the odd lines, but for a word that is added to some vocabularies."""
    lines = [line.replace("Quagga", "") for line in ODD]
    return Words.of([*lines * 3, *map(str.lower, lines)], 700)


def rows(found: Any, *texts: str) -> tuple[list[int], list[int]]:
    """Token ids and segments of the row that a task reads."""
    task = Classify(train="-", labels=("x", "y"))
    made = encode(task, [TextExample("0", texts, "x")], found, 512, 256)
    return made.token_ids.tolist(), made.segment_ids.tolist()


def agree(folder: Path, reference: Any) -> None:
    """All odd lines, alone and with the next, and the ids of the roles."""
    found = vocabulary_of(folder, ROWS)
    for first, second in zip(ODD, [*ODD[1:], ODD[0]], strict=True):
        for texts in ((first,), (first, second)):
            wanted = reference(*texts, return_token_type_ids=True)
            assert rows(found, *texts) == (wanted["input_ids"], wanted["token_type_ids"]), texts
    for role in ("pad", "unk", "cls", "sep", "mask", "bos", "eos"):
        assert getattr(found, role) == getattr(reference, f"{role}_token_id"), role
    assert not set(found.passed_on.get("model_input_names", [])) ^ set(reference.model_input_names)
    assert found.size == len(reference)


@pytest.mark.parametrize("chosen", [*PLAIN, *known.SAVED, *known.OTHERWISE])
def test_rows_are_those_of_transformers(chosen, words, tmp_path):
    chosen.write(tmp_path, words)
    agree(tmp_path, chosen.reference(tmp_path))


def test_special_and_added_tokens_are_those_of_transformers(words, tmp_path):
    for number, chosen in enumerate(more(words)):
        chosen.write(tmp_path / str(number), words)
        agree(tmp_path / str(number), chosen.reference(tmp_path / str(number)))


@pytest.mark.parametrize("chosen", PLAIN)
def test_what_is_saved_is_read_alike_by_all(chosen, words, tmp_path):
    """As a run keeps it, and as a run of it is exported, in the class that it came in."""
    chosen.write(tmp_path / "hf", words)
    reference = chosen.reference(tmp_path / "hf")
    run, exported = tmp_path / "run", tmp_path / "exported"
    vocabulary_of(tmp_path / "hf", ROWS).save(run / "tokenizer")
    (run / "resolved.json").write_text("{}")
    agree(run, reference)
    vocabulary_of(run, ROWS).save(exported)
    again = transformers.AutoTokenizer.from_pretrained(exported)
    agree(exported, reference)
    agree(run, again)
    assert type(again) is type(reference)
    assert again.padding_side == reference.padding_side


def test_a_folder_that_names_no_class_is_read_as_its_file_says(words, tmp_path):
    for cls in (BERT, known.ALBERT, known.XLMR, known.DEBERTA, ROBERTA, WRITTEN):
        folder, named = tmp_path / cls, tmp_path / f"{cls} named"
        Folder(cls, model_type="other").write(folder, words)
        Folder(cls).write(named, words)
        read, wanted = (vocabulary_of(one, ROWS).tokenizer.to_str() for one in (folder, named))
        assert read == wanted


def test_roles_that_no_file_names_are_those_of_the_ends(words, tmp_path):
    """EuroBERT's names no [CLS], [SEP] and unknown token; it spells every byte."""
    Folder(WRITTEN, known.BEGUN).write(tmp_path, words)
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace("s>", "|>").replace("<unk>", "<other>"))
    settings = {role: token.replace("s>", "|>") for role, token in known.BEGUN.items()}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    found = vocabulary_of(tmp_path, ROWS)
    assert [found.token(number) for number in (found.cls, found.sep)] == ["<|>", "</|>"]
    assert found.unk == found.pad
    inner = found.tokenizer.encode("hens").ids[1:-1]
    assert rows(found, "hens")[0] == [found.bos, *inner, found.eos]


@pytest.mark.parametrize("node", [WordsNode(size=90), Bytes(), Unigram(size=90)], ids=str)
def test_a_learned_vocabulary_is_read_alike_by_all(node, tmp_path):
    from transformers import AutoTokenizer

    from_tokenizer(learn(node, ODD), "test").save(tmp_path / "tokenizer")
    found = vocabulary_of(tmp_path, ROWS)
    reference = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    for first, second in itertools.pairwise(ODD):
        wanted = reference(first, second)
        assert rows(found, first, second) == (wanted["input_ids"], wanted["token_type_ids"])


def test_an_imported_xlnet_answers_as_its_class_does(words, tmp_path):
    """Which token stands for the row, and which segments there are, show in the scores."""
    from transformers import AutoTokenizer

    hf, run = tmp_path / "hf", tmp_path / "run"
    Folder(XLNET, saved=True).write(hf, words)
    kept = AutoTokenizer.from_pretrained(hf)
    reference = case("XLNetForSequenceClassification", {**XLNET_SIZES, "vocab_size": ROWS}).save(hf)
    import_run(hf, run)
    pairs = list(zip(ODD[:6], ODD[6:12], strict=True))
    found = [list(row["probabilities"].values()) for row in bertc.load(run).predict(pairs)]
    options: Any = {"return_tensors": "pt", "return_token_type_ids": True}
    with torch.no_grad():
        wanted = [reference(**kept(*pair, **options)).logits[0].softmax(0) for pair in pairs]
    torch.testing.assert_close(torch.tensor(found), torch.stack(wanted), atol=1e-5, rtol=0)


def test_a_line_of_a_word_list_ends_with_a_line_feed_alone(tmp_path):
    from transformers import BertTokenizer

    lines = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a\x85b", "", "c\u2028d", "[MASK]", "e\x1c", "hen"]
    path = tmp_path / "vocab.txt"
    path.write_bytes("\n".join([*lines, "", ""]).encode())  # empty lines at the end are none
    found = load_vocabulary(TokenizerFile(path=str(path)))
    assert [found.token(number) for number in range(found.size)] == lines
    reference = BertTokenizer.from_pretrained(tmp_path)
    assert found.mask == reference.mask_token_id == 7
    assert found.tokenizer.encode("Hen").ids == reference("Hen")["input_ids"] == [2, 9, 3]


def test_lower_false_keeps_capitals_where_no_file_tells(words, tmp_path):
    Folder(BERT).write(tmp_path, words)
    for lower, first in ((True, "t"), (False, "T")):
        node = TokenizerFile(path=str(tmp_path / "vocab.txt"), lower=lower)
        assert load_vocabulary(node).tokenizer.encode("The").tokens[1][0] == first


CODE = {"tokenizer_class": "OurTokenizer", "auto_map": {"AutoTokenizer": ["ours.Tokenizer", None]}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "python": ({"tokenizer_class": "BertJapaneseTokenizer"}, "BertJapaneseTokenizer"),
    "unknown": ({"tokenizer_class": "OurTokenizer"}, "OurTokenizer"),
    "code": (CODE, "code of the folder"),
    "split": ({"split_special_tokens": True}, "otherwise than its backend alone"),
    "case": ({"do_lower_case": "no"}, r"cannot read .*vocab\.txt"),
    "kind": ({"mask_token": 7}, r"cannot read .*vocab\.txt"),
    "file": ({"tokenizer_class": "XLNetTokenizer"}, r"reads tokenizer\.json or spiece\.model"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_read_otherwise_is_refused_by_name(name, words, tmp_path):
    config, message = REFUSED[name]
    Folder(BERT, config).write(tmp_path, words)
    with pytest.raises(BertcError, match=message) as caught:
        vocabulary_of(tmp_path, ROWS)
    assert str(tmp_path) in caught.value.message
    assert caught.value.help
    assert caught.value.exit_code == (77 if name == "code" else 65)


def test_check_refuses_what_train_refuses(words, tmp_path):
    Folder(BERT, {"tokenizer_class": "BertJapaneseTokenizer"}).write(tmp_path, words)
    for setting in ("init", "vocab"):
        with pytest.raises(SpecError, match="E212") as caught:
            resolve(f"{setting}='{tmp_path}'")
        assert "BertJapaneseTokenizer" in str(caught.value)


def test_training_reads_as_predictions_do(words, tmp_path):
    """What ``init`` and ``vocab`` learn with is what a run of that folder is used with."""
    for number, chosen in enumerate([*PLAIN, *known.OTHERWISE[:3], *more(words)]):
        folder = tmp_path / str(number)
        chosen.write(folder, words)
        used = vocabulary_of(folder, ROWS)
        settings = ("init", "vocab") if chosen.cls in (BERT, ROBERTA, XLNET) else ("vocab",)
        for setting in settings if chosen.model_type != "deberta" else ("vocab",):
            node = resolve(f"{setting}='{folder}'").vocabulary
            assert load_vocabulary(node).tokenizer.to_str() == used.tokenizer.to_str(), chosen
        assert node.size == used.size, chosen


def test_a_size_counts_the_added_tokens_of_a_tokenizer_json(tmp_path):
    made = from_tokenizer(learn(Unigram(size=90), ODD), "test")
    made.tokenizer.add_tokens(["Quagga"])
    made.save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "added_tokens_decoder": {}}))
    node = resolve(f"vocab='{tmp_path}'").vocabulary
    assert node.size == vocabulary_of(tmp_path, ROWS).size == made.size + 1


def test_a_token_without_a_row_and_a_text_that_is_no_vocabulary_are_refused(words, tmp_path):
    Folder(BERT).write(tmp_path, words)
    count = len(words.pieces)
    vocabulary_of(tmp_path, count)
    refused = pytest.raises(DataError, vocabulary_of, tmp_path, count - 1)
    refused.match(f"{count:,} tokens, the model only {count - 1:,}")
    (tmp_path / "vocab.txt").write_text("A text about hens.\nAnd ducks.\n")
    pytest.raises(DataError, vocabulary_of, tmp_path, 0).match(r'lacks the unknown token "\[UNK\]"')
