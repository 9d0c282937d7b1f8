"""Vectors of ``bertc embed``, and losses of the task, beside those of sentence-transformers.

    pip install sentence-transformers
    python -m tests.campaigns.sentences RUN [--texts FILE]

Prints the largest difference for each pooling and each loss with its gradient, and exits 1 if one
is above 1e-5.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import bertc
from bertc.hub.sentences import MODES
from bertc.learn.objectives.softmax.similarities import related_losses
from bertc.run.models.runs import export_run

TEXTS = ["a man is eating food", "many words " * 300, "the stock market fell", "", "ß – 中文 🙂"]
TOLERANCE = 1e-5


def losses() -> Iterator[tuple[str, float]]:
    """Each loss with the largest difference of it and its gradient."""
    from sentence_transformers.sentence_transformer import losses as theirs

    scores_n = torch.arange(30) % 7 / 2
    task: Any = bertc.resolve("layers=1 hidden=8 heads=1 vocab=64 task=embed('-', examples=1)")
    task, model = task.stages[0].tasks[0], torch.nn.Linear(1, 1)
    ranking = theirs.MultipleNegativesRankingLoss
    both_ways = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    cases = {
        "pairs": (2, False, ranking(model), None),
        "pairs, both": (2, True, ranking(model, **both_ways), None),
        "triplets": (3, False, ranking(model), None),
        "triplets, both": (3, True, ranking(model, **both_ways), None),
        "scored": (2, False, theirs.CoSENTLoss(model), scores_n),
    }
    for name, (texts, both, their_loss, labels) in cases.items():
        drawn = torch.randn(30, texts, 16, generator=torch.Generator().manual_seed(texts))
        vectors_ntd = drawn.requires_grad_()
        asked = task.model_copy(update={"both": both})
        scored = labels is not None
        ours = related_losses(asked, vectors_ntd, scores_n, scored=scored).losses.mean()
        expected = their_loss.compute_loss_from_embeddings([*vectors_ntd.unbind(1)], labels)
        found = [torch.autograd.grad(each, vectors_ntd)[0] for each in (ours, expected)]
        apart = (ours - expected).abs().item()
        difference = max((found[0] - found[1]).abs().max().item(), apart)
        yield f"{name}, loss {ours.item():.4f}", difference


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--texts", type=Path, help="one text a line")
    options = parser.parse_args()
    from sentence_transformers import SentenceTransformer

    texts = options.texts.read_text().splitlines() if options.texts else TEXTS
    model, wrong = bertc.load(options.run), 0
    for name, difference in losses():
        wrong += not difference <= TOLERANCE
        print(f"{name}: {difference:.1e}")
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
