"""What parallel text is worth: MLM alone beside MLM + TLM, on the same text for the same steps.

    python tests/bench/translation.py multi30k/train en de fr cs

reads ``multi30k/train.en.gz`` and so on, line by line: the first language beside each of the
others. One run reads their sides alone, the other those and pairs; then both are asked about the
same held-out rows: of one language, and pairs.
"""

import argparse
import tempfile
from pathlib import Path

import torch

from bertc.api import resolve
from bertc.data.cache.progress import Silent
from bertc.data.corpus import prepare
from bertc.ir.program.resolved import Resolved
from bertc.learn.step.objective import make_objective
from bertc.learn.step.vocabulary import vocab_tensors
from bertc.machine.process_group import ALONE
from bertc.run.evaluation.held_out import Evaluation, evaluate, unigram_nats
from bertc.run.models.loading import load
from bertc.run.train.loop import train

TOY = (
    "layers=2 hidden=128 heads=2 segments=0 head=linear language_embeddings=true smoothing=0.7 "
    "vocab=wordpiece(6k, lower=false, smoothing=0.5) seq=64 batch=64 pack=true dropout=0 "
    "holdout=2% eval_examples=1024 device=cpu precision=fp32 "
    "optimizer=adamw(lr=3e-3, warmup=5%)"
)
CPU = torch.device("cpu")


def asked(run: Path, resolved: Resolved, cache: Path) -> Evaluation:
    """What a run knows of the held-out rows of another program that has the same vocabulary."""
    corpus, model = prepare(resolved, cache, Silent()), load(run)
    stage, data = resolved.stages[0], corpus.stage(0)
    return evaluate(
        model,
        stage,
        make_objective(model, stage, compiled=False),
        data.heldout(64, resolved.run.eval_examples),
        vocab_tensors(corpus.vocabulary, CPU),
        [unigram_nats(corpus.vocabulary, data.tokens, CPU)],
        64,
        resolved.run.seed,
        ALONE,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix")
    parser.add_argument("languages", nargs="+")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    first, *others = given.languages
    pairs = "+".join(
        f'pairs({first}="{given.prefix}.{first}.gz", {name}="{given.prefix}.{name}.gz")'
        for name in others
    )
    both = resolve(f"{TOY} data={pairs} steps={given.steps} objective=mlm+tlm", given.set)
    alone = resolve(f"{TOY} data={pairs} steps={given.steps} objective=mlm", given.set)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        for name, program in (("mlm", alone), ("mlm+tlm", both)):
            run = Path(folder) / name
            report = train(program, run, cache=cache, quiet=True)
            found = asked(run, both, cache)
            speed = report.tokens / report.seconds
            print(f"{name}: {report.seconds:.0f} s, {speed:,.0f} tokens/s")
            print(f"  unigram {found.unigram_loss:.3f}, held-out by language:")
            for language, losses in found.languages.items():
                print(f"  {language:8}", *(f"{k} {v:.3f}" for k, v in losses.items()))
            print("  all     ", *(f"{k} {v:.3f}" for k, v in found.losses.items()), flush=True)


if __name__ == "__main__":
    main()
