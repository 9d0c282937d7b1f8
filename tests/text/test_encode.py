"""Examples to rows: special tokens, cutting, windows, and where the answers stand."""

import json
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

import bertc
from bertc.base.diagnostics import DataError
from bertc.ir.learning.custom_task import Choose, Classify, Read, Regress, Spans, Tag
from bertc.ir.vocabulary import ByteBpe
from bertc.tasks.examples.copies import Copier
from bertc.tasks.examples.encode import encode
from bertc.tasks.examples.task import TaskData, TaskSet, cut, gather, in_order_of_length
from bertc.tasks.examples.task_rows import notes_on_cuts, notes_on_shared, template_of
from bertc.tasks.examples.task_sets import notes_on_classes, read_tasks
from bertc.tasks.layouts.example import ChoiceExample, QuestionExample, TaggedExample, TextExample
from bertc.text.vocab.learned import learn
from bertc.text.vocab.vocabulary import from_tokenizer
from tests.text.test_prepare import Notes

WORDS = [f"w{n}" for n in range(40)]
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BINARY, TAGS = (kind(train="-", labels=("x", "y")) for kind in (Classify, Tag))


def word_tokenizer():
    ids = {word: number for number, word in enumerate([*SPECIALS, *WORDS, "a", "b"])}
    made = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(SPECIALS)
    return made


def with_template(tokenizer, single, pair):
    specials = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single, pair, specials)
    return from_tokenizer(tokenizer, "test")


def bert_vocabulary(tokenizer):
    return with_template(tokenizer, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")


@pytest.fixture
def tokenizer():
    return word_tokenizer()


@pytest.fixture
def bert(tokenizer):
    return bert_vocabulary(tokenizer)


def span_of(rows, number):
    return slice(rows.begins[number], rows.begins[number + 1])


def read(rows, vocabulary, number):
    span = span_of(rows, number)
    return " ".join(vocabulary.token(i) for i in rows.token_ids[span]), rows.segment_ids[span]


def text(draw, low, high):
    return " ".join(draw.choices(WORDS, k=draw.randint(low, high)))


def task_set(bert, draw, size, high=9, name="own"):
    """A task of texts and its rows."""
    task = Classify(train="-", name=name, labels=("x", "y"))
    examples = [TextExample(str(n), (text(draw, 1, high),), "x") for n in range(size)]
    return TaskSet(task, encode(task, examples, bert, 16, 2), {})


def test_pairs_are_those_of_the_tokenizer_itself(bert, tokenizer):
    """Also where they are cut: the library's longest_first takes from the longer text."""
    draw = random.Random(3)
    examples = [
        TextExample(str(n), (text(draw, 1, 20), text(draw, 1, 20)), draw.choice("xy"))
        for n in range(200)
    ]
    rows = encode(BINARY, examples, bert, 16, 2)
    tokenizer.enable_truncation(16, strategy="longest_first")
    for number, example in enumerate(examples):
        wanted, span = tokenizer.encode(*example.texts), span_of(rows, number)
        assert len(wanted.ids) == len(rows.token_ids[span])
        # Where both are equally long, which one loses a token first is anyone's choice.
        lengths = [wanted.sequence_ids.count(which) for which in (0, 1)]
        if abs(lengths[0] - lengths[1]) > 1 or len(wanted.ids) < 16:
            assert wanted.ids == rows.token_ids[span].tolist()
            assert wanted.type_ids == rows.segment_ids[span].tolist()
    assert rows.targets[:, 0].tolist() == [float(e.answer == "y") for e in examples]
    assert rows.num_cut == sum(len(" ".join(e.texts).split()) > 13 for e in examples)
    rows = encode(Regress(train="-"), [TextExample("0", ("w1", "w2"), 2.5)], bert, 16, 1)
    assert not rows.segment_ids.any(), "an encoder without segments reads none"
    assert rows.targets.tolist() == [[2.5]]


def test_specials_of_other_families(tokenizer):
    tokenizer.post_processor = processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2))
    roberta = template_of(from_tokenizer(tokenizer, "test"))
    assert roberta.between == ((3, 3), (0, 0))
    assert (roberta.specials(1), roberta.specials(2), roberta.second) == (2, 4, 0)
    vocabulary = with_template(tokenizer, "$A [SEP] [CLS]:2", "$A [SEP] $B:1 [SEP]:1 [CLS]:2")
    assert vocabulary.cls_last
    examples = [TextExample("0", ("w1 w2", "w3"), "x"), TextExample("1", ("w1 w2 w4", "w3"), None)]
    rows = encode(BINARY, examples, vocabulary, 16, 3)
    shown, kinds = read(rows, vocabulary, 0)
    assert (shown, kinds.tolist()) == ("w1 w2 [SEP] w3 [SEP] [CLS]", [0, 0, 0, 1, 1, 2])
    batch = gather(BINARY, rows, np.array([0, 1]), 0)
    assert batch.positions.tolist() == [[5], [6]], "the last token stands for the whole"
    assert rows.targets.tolist() == [[0.0], [-1.0]]


def test_windows_hold_every_token_and_every_answer(bert):
    draw = random.Random(5)
    examples = []
    for number in range(100):
        words = draw.choices(WORDS, k=draw.randint(4, 39))
        first = draw.randrange(len(words))
        last = min(len(words), first + draw.randint(1, 4))
        begin = len(" ".join(words[:first])) + (first > 0)
        answer = (" ".join(words[first:last]), begin)
        passage, question = " ".join(words), text(draw, 1, 9)
        examples.append(QuestionExample(str(number), passage, question, (answer,), True))
    rows = encode(Read(train="-", stride=7, question=6), examples, bert, 24, 2)
    assert (rows.lengths <= 24).all()
    assert rows.num_unread == 0, "windows overlap by more than the longest answer"
    found: dict[int, set[int]] = {}
    for row, owner in enumerate(rows.owners):
        span = span_of(rows, row)
        offsets, passage = rows.offsets[span], examples[owner].passage
        inside = offsets[:, 0] >= 0
        texts = [passage[a:b] for a, b in offsets[inside]]
        assert texts == [bert.token(i) for i in rows.token_ids[span][inside]]
        (first, last), begin = rows.targets[row].astype(int), rows.firsts[row]
        found.setdefault(owner, set()).update(range(begin, begin + len(texts)))
        if first:
            assert passage[offsets[first, 0] : offsets[last, 1]] == examples[owner].answers[0][0]
    for owner, places in found.items():
        assert places == set(range(len(examples[owner].passage.split())))
    assert set(rows.owners[rows.targets[:, 0] > 0].tolist()) == set(range(100))


@pytest.mark.parametrize("stride", [1, 5, 12, 40])
def test_long_texts_are_read_in_windows(bert, stride):
    """Of a text all tokens are in its windows; of a pair the longer one's, and all of the other."""
    draw = random.Random(stride)
    long = [f"w{draw.randint(4, 39)}" for _ in range(50)]
    texts = [TextExample("0", (" ".join(long),), "y"), TextExample("1", ("w1 w2",), "x")]
    task = Classify(train="-", labels=("x", "y"), stride=stride)
    rows = encode(task, texts, bert, 16, 2)
    assert (rows.num_windowed, rows.num_cut) == (1, 0)
    ids = bert.tokenizer.encode(" ".join(long), add_special_tokens=False).ids
    step, windows = min(stride, 14), rows.owners.tolist().count(0)
    assert windows == 1 + -(-(50 - 14) // step)
    for nth in range(windows):
        inner = rows.token_ids[span_of(rows, nth)][1:-1].tolist()
        assert inner == ids[nth * step : nth * step + 14], nth
    assert rows.targets[:, 0].tolist() == [1.0] * windows + [0.0]
    for pair in ((" ".join(long), "w1 w2 w3"), ("w1 w2 w3", " ".join(long))):
        rows = encode(task, [TextExample("0", pair, "y")], bert, 16, 2)
        seen = [rows.token_ids[a:b].tolist() for a, b in pairwise(rows.begins)]
        short = bert.tokenizer.encode("w1 w2 w3", add_special_tokens=False).ids
        assert all(str(short)[1:-1] in str(row)[1:-1] for row in seen)
        assert {*ids} <= {token for row in seen for token in row}


def test_each_word_is_scored_where_it_has_most_context(bert):
    words = tuple(f"w{n % 40}" for n in range(45))
    tags = tuple("xy"[n % 2] for n in range(45))
    task = Tag(train="-", labels=("x", "y"), stride=6)
    rows = encode(task, [TaggedExample("0", words, tags)], bert, 16, 2)
    whole = encode(task, [TaggedExample("0", words, tags)], bert, 100, 2)
    assert rows.num_windowed == 1
    assert rows.num_unread == 0
    assert rows.tags.tolist() == whole.tags.tolist()
    scored, context = [], []
    for (a, b), (first, end) in zip(pairwise(rows.begins), pairwise(rows.word_begins), strict=True):
        places = rows.words[first:end]
        scored += rows.token_ids[a:b][places].tolist()
        context += np.minimum(places - 1, b - a - 2 - places).tolist()
    assert scored == whole.token_ids[whole.words].tolist()
    assert min(context[4:-4]) >= 4, "half of the overlap of 8 tokens"


def test_first_pieces_of_words(bert):
    examples = [TaggedExample("0", ("w1", "w2", "\u0301", "w3"), ("x", "y", "x", "y"))]
    rows = encode(TAGS, examples, bert, 5, 2)
    assert read(rows, bert, 0)[0].startswith("[CLS] w1 w2")
    assert (rows.words.tolist(), rows.num_unread) == ([1, 2, 3], 1), "the last word is cut off"
    batch = gather(TAGS, rows, np.array([0]), 0)
    assert (batch.weights.tolist(), batch.targets.tolist()) == ([[1, 1, 1]], [[0, 1, 0]])


def test_words_of_byte_level_vocabularies_keep_the_spaces_between_them():
    lines = ["Los indios: don't  12 aprecian", "los vasos", "x , y 's"]
    vocabulary = from_tokenizer(learn(ByteBpe(size=280), lines), "test")
    for line in lines:
        words = tuple(line.split())
        rows = encode(TAGS, [TaggedExample("0", words, ("x",) * len(words))], vocabulary, 64, 2)
        wanted = vocabulary.tokenizer.encode(" ".join(words))
        assert rows.token_ids.tolist() == wanted.ids
        starts = [len(" ".join(("", *words[:number]))) for number in range(len(words))]
        assert [wanted.offsets[place][0] for place in rows.words] == starts


def test_choices_are_rows_of_one_example(bert):
    examples = [
        ChoiceExample("0", "w1 w2", "w3 _ w4", ("w5", "w6"), 1),
        ChoiceExample("1", "", "w3", ("w5", "w6", "w7"), 0),
    ]
    task = Choose(train="-", choices=("a", "b", "c"), question=3)
    rows = encode(task, examples, bert, 16, 2)
    shown = [read(rows, bert, row)[0] for row in range(6)]
    assert shown[0] == "[CLS] w1 w2 [SEP] w3 w5 w4 [SEP]"
    assert shown[5] == "[CLS] w3 [SEP] w7 [SEP]"
    assert rows.exists.tolist() == [True, True, False, True, True, True]
    (one, other) = cut(rows.lengths, np.array([1, 0]), 3, 3)
    assert {one.tolist()[0] // 3, other.tolist()[0] // 3} == {0, 1}
    # A choice may be first and keep its beginning.
    examples = [
        ChoiceExample("0", "w1 w2 w3", "w4 w5", ("w6 w7", "w8"), 1),
        ChoiceExample("1", "", "w3", ("w5", "w6"), 0),
    ]
    task = Choose(train="-", choices=("a", "b"), question=3, first="choice", keeps="beginning")
    rows = encode(task, examples, bert, 16, 2)
    shown = [read(rows, bert, row)[0] for row in range(4)]
    assert shown[0] == "[CLS] w4 w5 w6 [SEP] w1 w2 w3 [SEP]"
    assert shown[2] == "[CLS] w5 [SEP] w3 [SEP]"
    assert (rows.num_cut, rows.num_questions_cut) == (0, 1)


@pytest.mark.parametrize("smoothing", [1.0, 0.5])
def test_tasks_are_drawn_by_their_size(bert, smoothing):
    draw = random.Random(1)
    sets = tuple(task_set(bert, draw, size, name=n) for n, size in (("big", 320), ("small", 80)))
    data = TaskData(bert, 3, 8, 16, sets, smoothing)
    drawn = [data.train(step)[0].task for step in range(200)]
    share = drawn.count("big") / len(drawn)
    assert share == pytest.approx(320**smoothing / (320**smoothing + 80**smoothing), abs=0.02)
    # Each example is read as often as any other, but for the pass that is under way.
    seen = Counter(
        row
        for step in range(200)
        for part in data.train(step, at_once=3)
        if part.task == "small"
        for row in part.rows.tolist()
    )
    assert set(seen) == set(range(80))
    assert max(seen.values()) - min(seen.values()) <= 1


def test_a_batch_is_the_same_however_it_is_cut(bert):
    own = task_set(bert, random.Random(2), 50, high=14)
    data = TaskData(bert, 3, 8, 16, (own,), 1.0)
    for step in (0, 5, 11):
        whole = np.concatenate([part.rows for part in data.train(step)])
        parts = data.train(step, at_once=3)
        assert sorted(np.concatenate([part.rows for part in parts])) == sorted(whole)
        mine = [data.train(step, rows) for rows in (slice(0, 3), slice(3, 8))]
        assert sorted(row for rank in mine for part in rank for row in part.rows) == sorted(whole)
        longest = [own.train.lengths[part.rows].max() for part in parts]
        assert longest == sorted(longest, reverse=True)
        for part in parts:
            assert (part.examples > 0).sum() == own.train.lengths[part.rows].sum()
    batches = list(in_order_of_length(own, own.train, 160, 32, 0))
    assert sorted(row for batch in batches for row in batch.rows) == list(range(50))
    assert all(batch.token_ids.size <= 160 for batch in batches)


def test_what_is_cut_lost_or_too_little_is_reported(bert, tmp_path):
    reports = Notes()
    (tmp_path / "short.tsv").write_text("text\tlabel\nw1 w2\tno\nw3 w4 w5 w6 w7 w8 w9\tyes\n")
    context = "w1 w2 w3 w4 w5 w6"
    row = {"context": context, "question": "a", "answer": context[:-3], "start": 0}
    (tmp_path / "asked.jsonl").write_text(json.dumps(row))
    own = f"classify('{tmp_path}/short.tsv') + read('{tmp_path}/asked.jsonl', stride=2)"
    spec = f"layers=1 hidden=8 heads=2 vocab=wordpiece(99) task={own} batch=5 seq=8"
    copier = Copier(tmp_path, None, "[MASK]", reports)
    read_tasks(bertc.resolve(spec).stages[0], bert, 1, copier, reports, {})
    assert reports.notes == [
        "classify: no dev part: no scores will be reported",
        "classify: 1 of 2 training examples are cut to 8 tokens; stride= reads them in windows",
        "classify: batch = 5 is 2.5 times the 2 training examples",
        "read: no dev part: no scores will be reported",
        "read: 1 of 1 training examples are read in windows: 2 rows; epochs=2 reads all of them",
        "read: the answers of 1 of 1 training examples stand in no window as a whole: a longer seq"
        " has longer windows, a smaller stride more of them",
        "read: batch = 5 is 2.5 times the 2 training examples",
    ]


def test_a_task_of_two_stages_is_read_once(bert, tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabel\nw1 w2\tno\nw3 w4\tyes\n")
    task = f"classify('{tmp_path}/a.tsv')"
    blocks = f"stage 'a' {{ task={task} }} stage 'b' {{ task={task} batch=2 }}"
    resolved = bertc.resolve(f"layers=1 hidden=8 heads=2 vocab=wordpiece(99) seq=8 {blocks}")
    reports, known = Notes(), {}
    copier = Copier(tmp_path, None, "[MASK]", reports)
    first, second = (read_tasks(s, bert, 1, copier, reports, known) for s in resolved.stages)
    assert reports.tasks == ["reading classify", "encoding classify"]
    assert first.sets[0] is second.sets[0]
    assert (first.batch, second.batch) == (resolved.stages[0].batch, 2)


def test_a_question_that_is_cut_names_its_limit_and_words_say_why_they_are_not_read(bert):
    asked = Read(train="-", question=3)
    questions = [QuestionExample("0", "w1 w2 w3", text, (), False) for text in ("a", "a " * 9)]
    rows = encode(asked, questions, bert, 16, 2)
    assert notes_on_cuts(asked, rows, 2, "training ", 16) == [
        "the questions of 1 of 2 training examples are cut to 3 tokens (question=)"
    ]
    for limit, seq in ((64, 12), (8, 11)):  # a token of text fits
        encode(Read(train="-", question=limit), questions, bert, seq + 1, 2)
        with pytest.raises(DataError, match=f"{seq} have no room .* .a a a") as refused:
            encode(Read(train="-", question=limit), questions, bert, seq, 2)
        assert refused.value.help == f"question={seq - 4} cuts questions, seq={seq + 1} has room"
    chosen = Choose(train="-", passage="p", question=2)
    rows = encode(chosen, [ChoiceExample("0", "w1 w2", "a b", ("a", "b"), 0)], bert, 32, 2)
    cut = rows.num_cut, rows.num_questions_cut
    assert cut == (0, 1), "one example, though both its choices are"
    lone = ("a", "\u200b", "w1", "w2", "w3", "w4", "w5", "w6")
    bert.tokenizer.normalizer = normalizers.Replace("\u200b", "")
    rows = encode(TAGS, [TaggedExample("0", lone, ())], bert, 6, 2)
    assert notes_on_cuts(TAGS, rows, 1, "dev ", 6) == [
        "1 of 1 dev examples are cut to 6 tokens",
        "4 words of 1 dev examples have no token in a row of 6, and are answered unread",
    ]


def test_numbers_among_labels_that_are_texts_and_capitals_that_differ_are_remarked_on() -> None:
    notes = []
    for answers in (["good"] * 20 + ["poor"] * 20 + ["7"], ["no", "Yes", "yes"] * 3):
        rows = [TextExample(str(n), ("a",), answer) for n, answer in enumerate(answers)]
        task = Classify(train="a.csv", labels=tuple(dict.fromkeys(answers)))
        notes += notes_on_classes(task, rows)
    number, capitals = notes
    assert "'7' is 1 of 41" in number
    assert number.endswith("it is a number among texts: correct these rows, or is it a label?")
    assert capitals == "the labels Yes, yes differ in capitals alone"
    (far,) = notes_on_classes(Regress(train="a.csv"), [TextExample("0", ("a",), 1984.0)])
    assert far.startswith("labels go to 1,984, and a head begins near 0")


def test_dev_rows_that_are_trained_on_are_counted() -> None:
    trained = [TextExample(str(n), (text,), "up") for n, text in enumerate("abc ")]
    dev = [TextExample("0", ("c",), "up"), TextExample("1", ("c",), "down")]
    empty, note = notes_on_shared(trained, {"dev": dev, "other": dev[1:]})
    assert empty == "1 of 4 training examples have no text"
    assert note.startswith("1 of 2 dev examples are training examples too")


def test_names_in_front_of_rows_are_drawn_for_a_step(bert):
    task = Spans(train="-", labels=tuple(WORDS[:9]), negatives=3, widest=2, units=2)
    said = {
        "w20 w21 w22": "B-w1 I-w1 O",
        "w23": "B-w8",
        "w24 w25 w26": "B-w2 I-w2 I-w2",
        "w27": "O",
    }
    examples = [TaggedExample(t, (*t.split(),), (*tags.split(),)) for t, tags in said.items()]
    rows = encode(task, examples, bert, 16, 1)
    data = TaskData(bert, 7, 4, 16, (TaskSet(task, rows, {}, True),), 1.0)
    drawn = set[tuple[str, ...]]()
    for step in (*range(9), 0):
        (batch,) = data.train(step)
        for ids, at, there, targets in zip(
            batch.token_ids, batch.positions, batch.passage, batch.targets, strict=True
        ):
            names = [bert.token(int(ids[place + 1])) for place in at[: there.sum()]]
            (text,) = (t for t in said if bert.tokenizer.token_to_id(t[:3]) in ids)
            right = {tag[2:] for tag in said[text].split()} - {""}
            assert right <= {*names}
            assert max(1, len(right)) <= len({*names}) == len(names) <= len(right) + 3
            learned = {(names[code // 2], code % 2) for code in map(int, targets[targets > 0] - 1)}
            assert learned == (
                {("w1", 1)} if "w20" in text else {("w8", 0)} if text == "w23" else set()
            )
            drawn.add((text, *names))
    assert 20 < len(drawn) < 37, "step 0 is drawn alike, others are not"
    with pytest.raises(DataError, match="after 19 tokens of 9 labels"):
        encode(task.judged.model_copy(update={"labels": task.labels}), [examples[-1]], bert, 14, 1)
    with pytest.raises(DataError, match="no token marker='<<ENT>>'"):
        encode(task.model_copy(update={"marker": "<<ENT>>"}), examples, bert, 16, 1)
