"""Each layout is read as its official files are written; every kind of task has a reader."""

import gzip
import json
import re
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from bertc.base.diagnostics import DataError
from bertc.ir.data import Hf
from bertc.ir.learning.custom_task import AnyTask, Choose, Classify, Many, Read, Regress, Spans, Tag
from bertc.ir.learning.task import Glue, Race, Squad, Tagging, Xnli
from bertc.ir.learning.vector_task import Embed, Rerank
from bertc.tasks.examples.task_sets import found_labels
from bertc.tasks.layouts.conll import bio
from bertc.tasks.layouts.example import (
    ChoiceExample,
    QuestionExample,
    TaggedExample,
    TextExample,
    gold,
)
from bertc.tasks.layouts.parts import dev_parts, part_examples, read_examples as read_part
from bertc.tasks.layouts.table import DataPart

PAIR = "sentence1\tsentence2"
MNLI = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
    f"sentence1_parse\tsentence2_parse\t{PAIR}\tlabel1\tgold_label"
)
STSB = f"index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\t{PAIR}\tscore"


def read_examples(task: AnyTask, path: Path) -> list[Any]:
    return read_part(task, DataPart(path, labelled=False))


def write(path: Path, *rows: str, end: str = "\n", bom: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = (("\ufeff" if bom else "") + "".join(row + end for row in rows)).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def lines(path: Path, rows: Iterable[Any]) -> str:
    return str(write(path, *(json.dumps(row) for row in rows)))


# Each maker writes files for one kind of task and says how it reads its training file.
def glue(at: Path) -> AnyTask:
    write(at / "train.tsv", f"index\t{PAIR}\tlabel", '0\tA "hen\tHens"\tentailment')
    write(at / "dev.tsv.gz", f"index\t{PAIR}\tlabel", "0\tA hen\tHens\tnot_entailment")
    write(at / "test.tsv", f"index\t{PAIR}", "0\tA hen\tHens")
    return Glue(task="rte", data=str(at))


def xnli(at: Path) -> AnyTask:
    write(at / "train-en.tsv", 'A "hen\tHens"\tentailment')
    write(at / "dev-en.tsv", "A hen\tHens\tneutral")
    write(at / "dev-de.tsv.gz", "Ein Huhn\tHühner\tcontradiction")
    write(at / "test.tsv", "Ein Huhn\tHühner")
    return Xnli(data=str(at))


def passages(answers: bool = True, **more: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"id": "q1", "question": "Who clucks?", **more}
    if answers:
        asked["answers"] = [{"text": "hen", "answer_start": 2}]
    return {"data": [{"title": "T", "paragraphs": [{"context": "A hen clucks.", "qas": [asked]}]}]}


def squad(at: Path) -> AnyTask:
    write(at / "train-v1.1.json", json.dumps(passages()))
    write(at / "dev-v1.1.half.json.gz", json.dumps(passages(), indent=1))
    write(at / "test-v1.1.json", json.dumps(passages(answers=False)))
    return Squad(data=str(at))


def passage(**more: Any) -> dict[str, Any]:
    asked = {"questions": ["Who _ ?", "What?"], "options": [list("abcd"), list("wxyz")]}
    return {"article": "A hen.", "id": "high1.txt", "answers": ["B", "D"], **asked, **more}


def race(at: Path) -> AnyTask:
    for part in ("train", "dev"):
        write(at / part / "high" / "1.txt", json.dumps(passage()))
        write(at / part / "middle" / "2.txt", json.dumps(passage(id="middle2.txt")))
    unanswered = {name: value for name, value in passage().items() if name != "answers"}
    write(at / "test" / "high" / "3.txt", json.dumps(unanswered))
    return Race(data=str(at))


def tagging(at: Path) -> AnyTask:
    sentence = ("EU NNP I-NP I-ORG", "rejects VBZ I-VP O", "German JJ I-NP I-MISC", "")
    write(at / "eng.train.gz", "-DOCSTART- -X- O O", "", *sentence, *sentence)
    write(at / "eng.testa", "-DOCSTART- -X- -X- O", "", *sentence)
    write(at / "eng.testb", "EU", "rejects")
    return Tagging(data=str(at))


def classify(at: Path) -> AnyTask:
    rows = [{"text": "A hen", "label": 10}, {"text": "A duck", "label": 9}]
    train = lines(at / "train.jsonl", rows)
    write(at / "dev.csv", "label,text", '9,"A ""hen"",', 'and a duck"')
    test = write(at / "test.tsv.gz", "text", "A hen")
    return Classify(train=train, dev=str(at / "dev.csv"), test=str(test))


def regress(at: Path) -> AnyTask:
    table = pyarrow.table({"a": ["A hen"], "b": ["Hens"], "y": [1.5]})
    at.mkdir()
    parquet.write_table(table, at / "train.parquet")
    train = str(at / "train.parquet")
    test = str(write(at / "test.csv", "a,b", "A hen,Hens"))
    return Regress(train=train, dev=train, test=test, text="a", pair="b", label="y")


def choose(at: Path) -> AnyTask:
    train = str(write(at / "train.csv", "Who?,hen,duck,,B", '"Rain, snow",a,b,c,A'))
    dev = str(write(at / "dev.csv", "Who?,hen,duck,goose,2"))
    test = str(write(at / "test.csv", "Who?,hen,duck,goose"))
    return Choose(train=train, dev=dev, test=test, text="0", choices=("1", "2", "3"), label="4")


def tag(at: Path) -> AnyTask:
    train = lines(at / "a.jsonl", [{"words": ["A", "hen"], "tags": ["O", "B-X"]}])
    dev = str(write(at / "dev.tsv", "tags\twords", "O B-X\tA hen"))
    return Tag(train=train, dev=dev, test=lines(at / "test.jsonl", [{"words": "A hen"}]))


def named(at: Path) -> AnyTask:
    return Spans(**tag(at).model_dump(include={"train", "dev", "test"}))


def read(at: Path) -> AnyTask:
    row = {"context": "A hen clucks.", "question": "Who?", "answer": "hen", "start": 2}
    train = lines(at / "a.jsonl", [row])
    test = lines(at / "test.jsonl", [{"context": "A hen clucks.", "question": "Who?"}])
    return Read(train=train, dev=train, test=test)


def embed(at: Path) -> AnyTask:
    train = str(write(at / "train.csv", "a,b,y", "A hen,Hens,1.5"))
    test = str(write(at / "test.csv", "a,b", "A hen,Hens"))
    return Embed(train=train, dev=train, test=test, text="a", positive="b", score="y")


def rerank(at: Path) -> AnyTask:
    train = str(write(at / "train.csv", "query,passage,label", "A hen,Hens,0.5"))
    test = str(write(at / "test.csv", "query,passage", "A hen,Hens"))
    return Rerank(train=train, dev=train, test=test)


def of_race(name: str) -> list[Any]:
    return [
        ChoiceExample(f"{name}.txt-0", "A hen.", "Who _ ?", tuple("abcd"), 1),
        ChoiceExample(f"{name}.txt-1", "A hen.", "What?", tuple("wxyz"), 3),
    ]


EU = ("EU", "rejects", "German")
DUCK = TextExample("1", ("A duck",), "9")
RAIN = ChoiceExample("1", "", "Rain, snow", ("a", "b", "c"), 0)
MAKERS: dict[type, tuple[Callable[[Path], AnyTask], list[Any]]] = {
    Glue: (glue, [TextExample("0", ('A "hen', 'Hens"'), "entailment")]),
    Xnli: (xnli, [TextExample("0", ('A "hen', 'Hens"'), "entailment")]),
    Squad: (squad, [QuestionExample("q1", "A hen clucks.", "Who clucks?", (("hen", 2),), True)]),
    Race: (race, [*of_race("high1"), *of_race("middle2")]),
    Tagging: (tagging, [TaggedExample(n, EU, ("B-ORG", "O", "B-MISC")) for n in "01"]),
    Classify: (classify, [TextExample("0", ("A hen",), "10"), DUCK]),
    Regress: (regress, [TextExample("0", ("A hen", "Hens"), 1.5)]),
    Choose: (choose, [ChoiceExample("0", "", "Who?", ("hen", "duck"), 1), RAIN]),
    Tag: (tag, [TaggedExample("0", ("A", "hen"), ("O", "B-X"))]),
    Spans: (named, [TaggedExample("0", ("A", "hen"), ("O", "B-X"))]),
    Read: (read, [QuestionExample("0", "A hen clucks.", "Who?", (("hen", 2),), True)]),
    Embed: (embed, [TextExample("0", ("A hen", "Hens"), 1.5)]),
    Rerank: (rerank, [TextExample("0", ("A hen", "Hens"), 0.5)]),
}
KINDS = typing.get_args(typing.get_args(AnyTask)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_all_parts_of_a_task_and_any_file_of_its_layout(tmp_path: Path, kind: type) -> None:
    make, expected = MAKERS[kind]
    task = make(tmp_path / "data")
    found = part_examples(task)
    assert found == expected
    judged = dev_parts(task)
    assert judged == (("dev-de", "dev-en") if kind is Xnli else ("dev",))
    for part in judged:
        assert {type(example) for example in part_examples(task, part)} == {type(expected[0])}
    if kind is not Xnli:
        assert part_examples(task, "test")
    names = found_labels(task, found)
    assert bool(names) == (kind in (Classify, Spans, Tag, Tagging))
    for file in (tmp_path / "data").rglob("*"):
        if file.is_file():
            first, *_ = read_examples(task, file)
            if re.search("test(?!a)", str(file.relative_to(tmp_path))):
                pytest.raises(DataError, gold, first).match("has no label")


@pytest.mark.parametrize(("column", "tags"), [("ner", ("B-BIRD", "O")), ("upos", ("NOUN", "VERB"))])
def test_taggers_read_text_too(tmp_path: Path, column: str, tags: tuple[str, ...]) -> None:
    task, file = Tagging(data="x", column=column, labels=tags), tmp_path / "text.txt"  # type: ignore[arg-type]
    file.write_text("the hen sat\n\ntwo ducks swam by\nquack\n")
    read = [example.words for example in read_examples(task, file)]  # type: ignore[union-attr]
    assert read == [("the", "hen", "sat"), ("two", "ducks", "swam", "by"), ("quack",)]
    if column == "ner":
        file.write_text("the DT X O\nhen NN X B-BIRD\nsat VB X\n")
        pytest.raises(DataError, read_examples, task, file).match("3 columns, 4 expected")


TRAINING: dict[str, tuple[list[str], tuple[str, ...], Any]] = {
    "cola": (["gj04\t0\t*\tHens a."], ("Hens a.",), "0"),
    "sst2": (["sentence\tlabel", 'a " hen \t1'], ('a " hen ',), "1"),
    "mrpc": (["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "1\t7\t8\ta\tb"], ("a", "b"), "1"),
    "stsb": ([STSB, "0\tg\tf\ty\t1\tn\tn\ta\tb\t3.800"], ("a", "b"), 3.8),
    "qqp": (["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "9\t1\t2\ta", "9\t1\t2\ta\t\t0"],
            ("a", ""), "0"),
    "mnli": ([MNLI, "0\t\t\t\t\t\t\t\ta\tb\t-\t-", "1\t\t\t\t\t\t\t\ta\tb\tn\tneutral"],
             ("a", "b"), "neutral"),
    "qnli": (["index\tquestion\tsentence\tlabel", "0\ta\tb\tentailment"], ("a", "b"), "entailment"),
    "rte": ([f"index\t{PAIR}\tlabel", "0\ta\tb\tentailment"], ("a", "b"), "entailment"),
    "wnli": (["6\ta\tb\t1"], ("a", "b"), "1"),
}  # fmt: skip


@pytest.mark.parametrize("name", typing.get_args(Glue.model_fields["task"].annotation))
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_glue_training_files(tmp_path: Path, name: Any, end: str) -> None:
    task = Glue(task=name, data=str(tmp_path))
    if name == "ax":
        header = "Domain\tPremise\tHypothesis\tLabel"
        write(tmp_path / "diagnostic-full.tsv", header, "d\ta\tb\tneutral")
        write(tmp_path / "diagnostic.tsv", f"index\t{PAIR}", "0\ta\tb")
        assert part_examples(task, "dev") == [TextExample("0", ("a", "b"), "neutral")]
        assert part_examples(task, "test") == [TextExample("0", ("a", "b"), None)]
        return
    rows, texts, answer = TRAINING[name]
    write(tmp_path / "train.tsv", *rows, end=end, bom=True)
    (one,) = part_examples(task)
    assert one == TextExample(one.key, texts, answer)


def test_glue_test_files_and_similarity_in_another_language(tmp_path: Path) -> None:
    write(tmp_path / "test.tsv", "index\tsentence", "0\tA hen.")
    for task in (Glue(task="cola", data=str(tmp_path)), Glue(task="sst2", data=str(tmp_path))):
        assert part_examples(task, "test") == [TextExample("0", ("A hen.",), None)]
    write(tmp_path / "stsb-de-train.csv", '"Ein Huhn, weiß",Hühner,4.75', end="\r\n")
    write(tmp_path / "stsb-en-train.csv", "A hen,Hens,5.0", end="\r\n")
    (one,) = part_examples(Glue(task="stsb", data=str(tmp_path / "stsb-de")))
    assert one == TextExample("0", ("Ein Huhn, weiß", "Hühner"), 4.75)


def test_xnli_without_training_rows_and_as_its_authors_have_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for language in ("en", "de", "sw"):
        write(tmp_path / f"dev-{language}.tsv", f"{language}\tb\tneutral")
    task = Xnli(data=str(tmp_path), language="de")
    assert part_examples(task) == [TextExample("0", ("de", "b"), "neutral")]
    assert dev_parts(task) == ("dev-en", "dev-sw")
    header = "language\tgold_label\tsentence1_binary_parse\tsentence1\tsentence2\tpairID"
    rows = ("ar\tneutral\t\ta\tb\t1", "de\tentailment\t\tc\td\t2", "de\t-\t\te\tf\t2")
    write(data / "xnli.dev.tsv", header, *rows)
    write(data / "multinli.train.en.tsv", "premise\thypo\tlabel", "x\ty\tcontradictory")
    task = Xnli(data=str(data))
    assert part_examples(task) == [TextExample("0", ("x", "y"), "contradiction")]
    assert dev_parts(task) == ("dev-ar", "dev-de")
    assert part_examples(task, "dev-de") == [TextExample("0", ("c", "d"), "entailment")]


def test_squad_with_questions_that_have_no_answer(tmp_path: Path) -> None:
    told = passages(answers=False, is_impossible=True, answers_=[], plausible_answers=[])
    write(tmp_path / "train-v2.0.json", json.dumps(told))
    task = Squad(data=str(tmp_path), version=2)
    (one,) = part_examples(task)
    assert one == QuestionExample("q1", "A hen clucks.", "Who clucks?", (), False)
    assert dev_parts(task) == ()
    file = write(tmp_path / "blind.json", json.dumps(passages(answers=False)))
    assert read_examples(task, file)[0].has_answer is None  # type: ignore[union-attr]
    one = str(write(tmp_path / "a.json", json.dumps(passages())))
    two = Squad(data=one, dev=one)
    assert part_examples(two, "dev") == part_examples(two)


CONLLU = (
    "# sent_id = 1", "1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_", "1\tdo\tdo\tAUX\tVBP\t_\t0\taux\t_\t_",
    "2\tn't\tnot\tPART\tRB\t_\t1\tadvmod:neg\t_\t_", "2.1\tx\tx\tVERB\tVB\t_\t_\t_\t_\t_", "",
    "1\t20 000\t_\tNUM\tCD\t_\t0\troot\t_\t_",
)  # fmt: skip


@pytest.mark.parametrize(
    ("column", "tags"),
    [("upos", ("AUX", "PART")), ("xpos", ("VBP", "RB")), ("deprel", ("aux", "advmod:neg"))],
)
def test_universal_dependencies(tmp_path: Path, column: Any, tags: tuple[str, ...]) -> None:
    write(tmp_path / "en_x-ud-train.conllu", *CONLLU)
    found = part_examples(Tagging(data=str(tmp_path), column=column))
    assert found[0] == TaggedExample("0", ("do", "n't"), tags)
    assert found[1].words == ("20 000",)  # type: ignore[union-attr]


def test_wikiann_in_one_of_several_languages(tmp_path: Path) -> None:
    write(tmp_path / "de.train.txt", "de:Ein\tO", "de:Huhn\tB-ORG")
    write(tmp_path / "en.train.txt", "en:A\tO", "en::\tO", "", "en:Hen\tB-ORG", "en:Co\tI-ORG")
    first, second = part_examples(Tagging(data=str(tmp_path / "en")))
    assert first == TaggedExample("0", ("A", ":"), ("O", "O"))
    assert second == TaggedExample("1", ("Hen", "Co"), ("B-ORG", "I-ORG"))
    write(tmp_path / "fr.train.txt", "le:x O", "y O")
    assert part_examples(Tagging(data=str(tmp_path / "fr")))[0].words[0] == "le:x"  # type: ignore[union-attr]


def test_tags_that_name_spans_become_bio(tmp_path: Path) -> None:
    for before, after in (
        ("I-A I-A O I-A", "B-A I-A O B-A"),
        ("I-A B-A I-B I-B", "B-A B-A B-B I-B"),
        ("B-A I-A B-A I-A", "B-A I-A B-A I-A"),
    ):
        assert bio(tuple(before.split())) == tuple(after.split())
    rows = [{"words": ["a", "b"], "tags": ["I-A", "I-A"]}, {"words": ["c"], "tags": ["O"]}]
    path = lines(tmp_path / "a.jsonl", rows)
    for task in (Tag(train=path), Tag(train=path, labels=("O", "B-A", "I-A"))):
        assert [row.tags for row in part_examples(task)] == [("B-A", "I-A"), ("O",)]


def test_rows_are_called_by_their_id(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.tsv", "id\ttext\tlabel", "r7\tA hen.\tx", "\tA duck.\ty"))
    named, numbered = Classify(train=path), Classify(train=path, text="1", label="2")
    assert [row.key for row in part_examples(named)] == ["r7", "1"]
    assert [row.key for row in part_examples(numbered)] == ["0", "1", "2"]


def test_several_labels_are_lists_or_columns(tmp_path: Path) -> None:
    cells: list[Any] = [["b", "\u00e4", "b"], "b, a\u0308", '["b", "\u00e4"]', "b", [], "", 7]
    rows = [{"text": "x", "label": cell, "a": 1, "b": "false"} for cell in cells]
    path = lines(tmp_path / "a.jsonl", rows)
    task = Classify(train=path, labels=Many())
    read = [row.answer for row in part_examples(task)]  # type: ignore[union-attr]
    assert read == [("b", "\u00e4")] * 3 + [("b",), (), (), ("7",)], "in NFC"
    flags = part_examples(Classify(train=path, label=("a", "b")))
    assert {row.answer for row in flags} == {("a",)}  # type: ignore[union-attr]
    assert {*found_labels(task, part_examples(task))} == {"7", "\u00e4", "b"}
    empty = lines(tmp_path / "b.jsonl", [{"text": "x", "label": []}] * 2)
    with pytest.raises(DataError, match="no labels in all 2 examples"):
        found_labels(task, part_examples(task.model_copy(update={"train": empty})))


def test_labels_are_in_order(tmp_path: Path) -> None:
    rows = [{"text": "x", "label": label} for label in (10, 9, -1, 9)]
    task = Classify(train=lines(tmp_path / "a.jsonl", rows))
    assert found_labels(task, part_examples(task)) == ("-1", "9", "10")
    words = [TaggedExample("0", ("a",) * 5, ("I-Y", "O", "B-Y", "B-X", "O"))]
    assert found_labels(Tag(train="x"), words) == ("O", "B-X", "I-X", "B-Y", "I-Y")
    assert found_labels(Tag(train="x"), [TaggedExample("0", ("a", "b"), ("V", "N"))]) == ("N", "V")


def test_data_sets_name_their_labels(tmp_path: Path) -> None:
    import datasets

    names = datasets.ClassLabel(names=["O", "B-X"])
    string, several = datasets.Value("string"), datasets.Sequence
    columns = {"text": string, "label": names, "words": several(string), "tags": several(names)}
    rows = {"text": ["a", "b"], "label": [1, -1], "words": [["a", "b"]] * 2, "tags": [[0, 1]] * 2}
    saved = datasets.Dataset.from_dict(rows, features=datasets.Features(columns))
    saved.save_to_disk(str(tmp_path))
    where = Hf(name=str(tmp_path))
    found = part_examples(Classify(train=where, test=where), "test")
    assert [one.answer for one in found] == ["B-X", None]  # type: ignore[union-attr]
    assert part_examples(Tag(train=where))[0] == TaggedExample("0", ("a", "b"), ("O", "B-X"))
    with pytest.raises(DataError, match=r"split=train\): row 2: no label"):
        part_examples(Classify(train=where))
    with pytest.raises(DataError, match=r"no column 'label2'; there are text, label, words, tags"):
        part_examples(Classify(train=where, label="label2"))


def test_answers_as_data_sets_have_them(tmp_path: Path) -> None:
    answers = {"text": ["hen", "A hen"], "answer_start": [2, 0]}
    row = {"context": "A hen clucks.", "question": "Who?", "answers": answers}
    task = Read(train=lines(tmp_path / "a.jsonl", [row]), target="answers", start="")
    (one,) = part_examples(task)
    assert one.answers == (("hen", 2), ("A hen", 0))  # type: ignore[union-attr]


def test_texts_are_embedded_alone_or_with_a_negative_and_judged_by_sts(tmp_path: Path) -> None:
    texts = write(tmp_path / "texts.txt", "A hen", "", "Hens")
    sts = write(tmp_path / "sts.tsv", STSB, "0" + "\t-" * 6 + "\tA hen\tHens\t4.5")
    alone = Embed(train=str(texts), sts=str(sts))
    read = part_examples(alone)
    assert read == [TextExample("0", ("A hen",), None), TextExample("2", ("Hens",), None)]
    assert dev_parts(alone) == ("dev-sts",)
    assert part_examples(alone, "dev-sts") == [TextExample("0", ("A hen", "Hens"), 4.5)]
    table = str(write(tmp_path / "train.tsv", "a\tb\tc", "A hen\tHens\tA duck"))
    triplets = Embed(train=table, text="a", positive="b", negative="c")
    (example,) = part_examples(triplets)
    assert example == TextExample("0", ("A hen", "Hens", "A duck"), None)
    with pytest.raises(DataError, match="one text a line, and negative=c is a column"):
        part_examples(triplets.model_copy(update={"train": str(texts)}))


def test_a_text_may_be_made_of_several_columns(tmp_path):
    row = {"question": "Who?", "answer": "a hen", "said": {"by": "A hen clucks."}, "label": 1}
    file = Path(lines(tmp_path / "asked.jsonl", [row]))
    text = "Question: {question} Answer: {answer}"
    (example,) = read_examples(Classify(train=str(file), text=text, pair="said.by"), file)
    assert example == TextExample("0", ("Question: Who? Answer: a hen", "A hen clucks."), "1")
    with pytest.raises(DataError, match="no column 'reply'"):
        read_examples(Classify(train=str(file), text="{question} {reply}"), file)
    lines(file, [{**row, "answer": 3}])
    with pytest.raises(DataError, match="'answer' is 3, text expected"):
        read_examples(Classify(train=str(file), text=text), file)
