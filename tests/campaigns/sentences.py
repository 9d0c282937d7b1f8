"""Vectors of ``bertc embed`` beside those of sentence-transformers, which loads an exported folder.

    pip install sentence-transformers
    python -m tests.campaigns.sentences RUN [--texts FILE]

Prints the largest difference for each pooling, and exits 1 if one is above 1e-5.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

import bertc
from bertc.interop.runs import export_run
from bertc.interop.sentences import MODES

TEXTS = ["a man is eating food", "many words " * 300, "the stock market fell", "", "ß – 中文 🙂"]
TOLERANCE = 1e-5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--texts", type=Path, help="one text a line")
    options = parser.parse_args()
    from sentence_transformers import SentenceTransformer

    texts = options.texts.read_text().splitlines() if options.texts else TEXTS
    model, wrong = bertc.load(options.run), 0
    for pooling in MODES:
        with tempfile.TemporaryDirectory() as folder:
            export_run(options.run, Path(folder) / "model", pooling)
            theirs = SentenceTransformer(f"{folder}/model", device="cpu").encode(texts)
        difference = np.abs(model.embed(texts, pooling) - theirs).max()
        wrong += not difference <= TOLERANCE
        print(f"{pooling:5} {len(texts):,} texts of {theirs.shape[1]} numbers: {difference:.1e}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
