"""Each pretraining system at toy width on real text, beginning to end: what its held-out loss does.

    python tests/bench/toys.py DATA [electra xlnet transformer-xl mbert xlm]

DATA has the folders ``books``, ``multi30k`` and ``xnli``. ELECTRA, XLNet and Transformer-XL read
books; mBERT reads eight languages, XLM four and their pairs. Seconds count the preparation of text
and vocabulary too. Exits 1 if a held-out loss does not fall.
"""

import argparse
import gzip
import json
import sys
import tempfile
import time
from pathlib import Path

from bertc.api import resolve
from bertc.run.train.loop import train

FOUR = ("en", "de", "fr", "cs")
EIGHT = (*FOUR, "ar", "ru", "sw", "zh")
SMALL = "layers=2 hidden=128 heads=2"
BOOKS = "data=files('{books}') device=cpu"
TOYS = {
    # The generator is as large as the encoder: at this width a smaller one learns too little.
    "electra": f"{SMALL} vocab=wordpiece(1k) seq=64 batch=32 norm=pre dropout=0 generator=1 "
    "objective=rtd*50+mlm optimizer=adamw(lr=5e-4, warmup=5%) steps=2000 eval_every=400 " + BOOKS,
    # The released specs' rows and memory, which moves on by the half that is used again.
    "xlnet": f"extends xlnet {SMALL} vocab=unigram(2k) seq=64 batch=16 dropout=0.1 "
    "format=stream-pair(both_ways=true) memory=48 objective=plm(unit=pieces) "
    "optimizer=adamw(lr=2e-3, warmup=10%) steps=400 eval_every=100 eval_examples=256 " + BOOKS,
    "transformer-xl": "extends transformer-xl layers=3 hidden=128 heads=4 vocab=words(8k) "
    "table=adaptive([1k, 3k], div=2) seq=48 memory=48 batch=16 dropout=0 holdout=5% "
    "initializer=normal(0.09) steps=400 eval_every=100 optimizer=adamw(lr=1.5e-3, warmup=10%, "
    "schedule=cosine, eps=1e-8, decay=0, clip=0.25) " + BOOKS,
    "mbert": "extends mbert layers=2 hidden=64 heads=2 ffn=256 seq=64 batch=32 dropout=0 "
    "objective=mlm vocab=wordpiece(4k, lower=false, smoothing=0.7) "
    "optimizer=adamw(lr=3e-3, warmup=5%) steps=900 eval_every=300 device=cpu "
    "data={languages}",
    "xlm": f"extends xlm-15 {SMALL} seq=64 batch=32 dropout=0 initializer=normal(0.02) "
    "vocab=wordpiece(6k, lower=false, smoothing=0.5) languages=[en, de, fr, cs] "
    "objective=mlm+tlm optimizer=adamw(lr=2e-3, warmup=5%) steps=1200 eval_every=300 "
    "device=cpu data={pairs}",
}


def main() -> int:
    """The systems asked for, in order."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("data", type=Path)
    options.add_argument("systems", nargs="*", default=[], metavar="SYSTEM")
    chosen = options.parse_args()
    fell = []
    with tempfile.TemporaryDirectory(prefix="toys-") as folder:
        sources = _sources(chosen.data, Path(folder))
        for name in chosen.systems or TOYS:
            found = _run(TOYS[name].format(**sources), Path(folder, name))
            fell.append(all(last < first for first, last in found["held_out"].values()))
            print(json.dumps({"system": name, **found}), flush=True)
    return 0 if all(fell) else 1


def _run(spec: str, folder: Path) -> dict[str, object]:
    started = time.monotonic()
    train(resolve(spec), folder, cache=folder.with_suffix(".cache"), quiet=True)
    seconds = time.monotonic() - started
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    first, *_, last = (line for line in lines if line["kind"] == "eval")
    return {
        "seconds": round(seconds),
        "held_out": {
            name: [round(loss, 3), round(last["losses"][name], 3)]
            for name, loss in first["losses"].items()
        },
        "unigram": round(last["unigram_loss"], 3),
        "languages": last.get("languages"),
    }


def _sources(data: Path, folder: Path) -> dict[str, str]:
    """Text by kind, as the data of a spec; XNLI's sentences go to a file for each language."""
    for language in EIGHT:
        sentences = []
        if (table := data / "xnli" / f"dev-{language}.tsv.gz").is_file():
            sentences += [text for row in _lines(table) for text in row.split("\t")[:2]]
        if (lines := data / "multi30k" / f"train.{language}.gz").is_file():
            sentences += _lines(lines)
        (folder / f"{language}.txt").write_text("\n".join(sentences) + "\n")
    pair = "pairs(en='{0}.en.gz', {1}='{0}.{1}.gz')"
    return {
        "books": str(data / "books" / "books_1mb.jsonl.gz"),
        "languages": "+".join(
            f"files('{folder}/{language}.txt', language='{language}', sentences=lines)"
            for language in EIGHT
        ),
        "pairs": "+".join(pair.format(data / "multi30k" / "train", other) for other in FOUR[1:]),
    }


def _lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as opened:
        return opened.read().splitlines()


if __name__ == "__main__":
    sys.exit(main())
