"""Programs with their training as files of PyTorch, against ``bertc train``.

    nice python -m tests.campaigns.training_files --text FILE

Each program is written by ``bertc build --with-training``, trained for 50 steps by its file and by
bertc, without dropout, whose draws differ. Prints a row each: the largest difference of the losses
of a step, the last losses, lines of the file and of its training. Exits 1 above 1e-5.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = {
    "mlm + nsp": "objective=mlm+nsp optimizer=adamw(lr=1e-3)",
    "mlm, full sentences": "objective=mlm format=full-sentences optimizer=adam(lr=1e-3, clip=0)",
    "mlm of words + sop": "objective=mlm(unit=word)+sop share=all E=32 optimizer=lamb(lr=1e-3)",
    "ngram + sop": "objective=ngram+sop share=all E=32 optimizer=lamb(lr=1e-3)",
    "span": "objective=span format=single-segment optimizer=adam(lr=1e-3, bias_correction=false)",
    "clm": "objective=clm norm=pre optimizer=stable-adamw(lr=1e-3, schedule=wsd)",
    "rtd + mlm": "objective=50*rtd+mlm(replace=100/0/0, distinct=false) generator=0.5 E=32 "
    "optimizer=adamw(lr=1e-3)",
    "rtd of unigrams": "objective=rtd generator=unigram optimizer=adamw(lr=1e-3, schedule=cosine)",
}
SMALL = (
    "layers=2 hidden=64 heads=2 seq=64 batch=32 steps=50 vocab=wordpiece(1k) dropout=0 "
    "precision=fp32 log_every=1"
)


def main() -> None:
    """Write, train and compare all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True)
    text = parser.parse_args().text.resolve()
    print("| program | largest difference | loss of step 50 | lines | of training |")
    print("|---|---|---|---|---|")
    wrong = 0
    for name, settings in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as folder:
            spec = f"{SMALL} {settings} data=files('{text}')"
            written, trained = losses(spec, Path(folder))
            lines = (Path(folder) / "train.py").read_text().splitlines()
        apart = max(abs(one - other) for one, other in zip(written, trained, strict=True))
        wrong += apart > 1e-5
        start = next(n for n, line in enumerate(lines) if line.startswith("# Stage"))
        row = f"{apart:.1e} | {trained[-1]:.4f} | {len(lines)} | {len(lines) - start}"
        print(f"| {name} | {row} |", flush=True)
    sys.exit(bool(wrong))


def losses(spec: str, folder: Path) -> tuple[list[float], list[float]]:
    """The losses of the steps, by the file and by bertc."""
    file, run = folder / "train.py", folder / "run"
    ran("-m", "bertc.cli", "build", spec, "--with-training", "-o", str(file))
    printed = ran(str(file))
    ran("-m", "bertc.cli", "train", spec, "--out", str(run))
    metrics = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    trained = [line["loss"] for line in metrics if "grad_norm" in line]
    return [float(loss) for loss in re.findall(r"^\d+ loss (\S+)", printed, re.M)], trained


def ran(*arguments: str) -> str:
    """What a Python command prints."""
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


if __name__ == "__main__":
    main()
