"""Folders as those of the hub are laid out, imported as they are and compared with transformers.

    python -m tests.campaigns.zoo [--all] [--only PART]

Every class of transformers that bertc reads, at a tiny size, with a tokenizer of its layout learned
from the lines of the docs, in files as releases, tools and users leave them:
each class in one arrangement, or with ``--all`` in every one. Prints a table, a line a layout: the
folders, those that are imported, lines with other rows of token ids, and the largest differences of
states and of what heads say; exits 1 where a folder is refused, a row differs, or a number by more
than 1e-5 (in half precision of the weights both sides have).
"""

import contextlib
import io
import json
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file

from bertc.base.diagnostics import BertcError, Table
from bertc.ir.learning.custom_task import Classify
from bertc.model import Model
from bertc.run.models.loading import load
from bertc.run.models.runs import export_run, import_run
from bertc.tasks.examples.encode import encode
from bertc.tasks.layouts.example import TextExample
from bertc.text.vocab.vocabulary import Vocabulary, vocabulary_of
from tests.campaigns.options import read_options
from tests.hub import hf_tokenizers as known, test_tasks
from tests.hub.hf_models import CASES, Case
from tests.hub.hf_tokenizers import Folder, Words
from tests.hub.test_round_trip import encoded, mlm_logits
from tests.hub.test_weights import FILES, old_pickle, pickled, safe

TOLERANCE, LONGEST, LINES = 1e-5, 24, 200
TASK = Classify(train="-", labels=("x", "y"))
DOCS = Path(__file__).parents[2] / "docs"
Tensors = dict[str, torch.Tensor]
WRITTEN = {"tokenizer_class": known.WRITTEN, **known.WHOLE}
TOKENIZERS = {
    "bert": Folder(known.BERT), "electra": Folder(known.BERT, model_type="electra"),
    "nomic_bert": Folder(known.BERT, model_type="nomic_bert"), "mpnet": Folder(known.MPNET),
    "distilbert": Folder(known.DISTILBERT), "roberta": Folder(known.ROBERTA),
    "albert": Folder(known.ALBERT), "xlnet": Folder(known.XLNET), "xlm-roberta": Folder(known.XLMR),
    "camembert": Folder(known.CAMEMBERT), "modernbert": Folder(known.WRITTEN, WRITTEN),
    "deberta-v2": Folder(known.DEBERTA, {"do_lower_case": False, "vocab_type": "spm"}),
    "eurobert": Folder(known.WRITTEN, WRITTEN, model_type="eurobert"),
    "ultrabert": Folder(known.WRITTEN, WRITTEN, model_type="ultrabert"),
}  # fmt: skip
"""The tokenizer of each layout; XLM's have no fast one, and NeoBERT no class in transformers."""
OTHERS: dict[str, Any] = {
    "_num_labels": 2, "output_past": True, "use_bfloat16": False, "length_penalty": 1.0,
    "num_beams": 1, "top_k": 50, "sentence_transformers": {"activation_fn": "torch.nn.Identity"},
    "sbert_ce_default_activation_function": "torch.nn.Identity",
    "_attn_implementation_autoset": True,
    "language": "english", "name": "Model", "emb_size": 24, "cell": {}, "kwargs": {"a": 1},
}  # fmt: skip
"""Settings that training, generation and other tools have left in published files."""


def with_others(tensors: Tensors, folder: Path) -> None:
    """Settings without effect, code of the layout's own classes, heads and buffers of others."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    auto_map = {"AutoModel": f"modeling.{config['architectures'][0]}"}
    path.write_text(json.dumps({**config, **OTHERS, "auto_map": auto_map}))
    heads = {"fit_dense.weight": torch.ones(3, 4), "position_ids": torch.arange(9)[None]}
    safe({**tensors, **heads}, folder)


ARRANGEMENTS: dict[str, Callable[[Tensors, Path], None]] = {
    "as saved": safe,
    "pickled": pickled,
    "2019": old_pickle,
    "parts": FILES["in parts"],
    "pickles in parts": FILES["pickles in parts"],
    "fp16": lambda tensors, folder: pickled({n: t.half() for n, t in tensors.items()}, folder),
    "others": with_others,
    "within": lambda tensors, folder: safe({f"module.{n}": tensors[n] for n in tensors}, folder),
}


@dataclass
class Line:
    """What came of the folders of one layout."""

    folders: int = 0
    imported: int = 0
    rows: int = 0
    other: int = 0
    states: float = 0.0
    heads: float = 0.0
    back: float = 0.0

    @property
    def wrong(self) -> bool:
        """True if a folder is refused, or says something else."""
        apart = max(self.states, self.heads, self.back)
        return self.imported < self.folders or self.other > 0 or not apart <= TOLERANCE


def main() -> int:
    options = read_options(__doc__, all=False, only="")
    transformers.logging.set_verbosity_error()
    texts = [file.read_text() for file in sorted(DOCS.glob("*.md"))]
    lines = [line for text in texts for line in text.split("\n") if line.strip()]
    random.Random(7).shuffle(lines)
    words, found = Words.of(lines[:1000], 400), defaultdict[str, Line](Line)
    lines = lines[:LINES]
    for number, (layout, chosen) in enumerate(cases()):
        names = [*ARRANGEMENTS] if options.all else [[*ARRANGEMENTS][number % len(ARRANGEMENTS)]]
        for name in names:
            if options.only in f"{chosen.cls} {name}":
                with tempfile.TemporaryDirectory() as place:
                    kind, line = TOKENIZERS[layout], found[layout]
                    tried(Path(place), kind, chosen, name, words, lines, line)
    head = "layout", "folders", "imported", "rows", "other rows", "states", "heads", "exported"
    rows = [(layout, *astuple(line)) for layout, line in sorted(found.items())]
    print(Table(head, rows, units=(str, *["{:,}".format] * 4, *["{:.0e}".format] * 3)))
    return int(any(line.wrong for line in found.values()))


def cases() -> Iterator[tuple[str, Case]]:
    """Every class of a layout that has a tokenizer here, once, with the layout's name."""
    seen = set[str]()
    for case in [*CASES, *test_tasks.CASES]:
        layout = getattr(transformers, case.cls).config_class.model_type
        if layout in TOKENIZERS and case.cls not in seen:
            seen.add(case.cls)
            yield layout, case


def tried(
    place: Path, kind: Folder, chosen: Case, name: str, words: Words, lines: list[str], line: Line
) -> None:
    """Make one folder, import it, and add up what differs."""
    folder, line.folders = place / "hub", line.folders + 1
    kind = replace(kind, saved=name == "as saved")
    kind.write(folder, words)
    tokenizer = kind.reference(folder)
    size = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    theirs = Case(chosen.cls, tuple((dict(chosen.settings) | size).items())).model()
    with contextlib.redirect_stderr(io.StringIO()):
        theirs.save_pretrained(folder)
    tensors = {k: t.clone() for k, t in load_file(folder / "model.safetensors").items()}
    (folder / "model.safetensors").unlink()
    ARRANGEMENTS[name](tensors, folder)
    for weight in theirs.parameters() if name == "fp16" else ():
        weight.data.copy_(weight.data.half())
    try:
        import_run(folder, place / "run")
    except BertcError as error:
        print(f"{chosen.cls}, {name}: {error.message} ({error.help})", flush=True)
        return
    ids, pairs = differing(vocabulary_of(place / "run", len(tokenizer)), tokenizer, lines)
    line.imported, line.other = line.imported + 1, line.other + ids + pairs
    line.rows += len(lines) + len(lines) // 2
    batch = batch_of(tokenizer, lines[: test_tasks.CHOICES], theirs)
    states, heads = apart(load(place / "run"), theirs, batch)
    export_run(place / "run", place / "back")
    with contextlib.redirect_stderr(io.StringIO()):
        back = type(theirs).from_pretrained(place / "back").eval()
    with torch.no_grad():
        real = batch["attention_mask"].bool()
        both = [model.base_model(**batch).last_hidden_state[real] for model in (theirs, back)]
    line.states, line.heads = max(line.states, states), max(line.heads, heads)
    line.back = max(line.back, float((both[0] - both[1]).abs().max()))
    if max(states, heads) > TOLERANCE or ids + pairs:
        print(f"{chosen.cls}, {name}: {ids + pairs} rows, {states:.1e}, {heads:.1e}", flush=True)


def differing(made: Vocabulary, theirs: Any, lines: Sequence[str]) -> tuple[int, int]:
    """How many lines have other ids alone, and how many pairs of them other rows."""
    ids, rows, half = 0, 0, len(lines) // 2
    for texts in ((lines,), (lines[:half], lines[half : 2 * half])):
        examples = [TextExample("", text, None) for text in zip(*texts, strict=True)]
        ours = encode(TASK, examples, made, 100_000, 256)
        wanted = theirs(*map(list, texts), return_token_type_ids=True)
        for row, (start, end) in enumerate(zip(ours.begins, ours.begins[1:], strict=False)):
            same = ours.token_ids[start:end].tolist() == wanted["input_ids"][row]
            kinds = ours.segment_ids[start:end].tolist() == wanted["token_type_ids"][row]
            ids += len(texts) == 1 and not same
            rows += len(texts) == 2 and not (same and kinds)
    return ids, rows


def batch_of(tokenizer: Any, lines: Sequence[str], theirs: Any) -> dict[str, torch.Tensor]:
    """Rows of a few lines as the model reads them."""
    how = {"return_tensors": "pt", "padding": True, "truncation": True}
    made = tokenizer(list(lines), **how, max_length=LONGEST)
    if theirs.config.model_type == "xlnet":
        # Its classes read the last state of a row: all rows are as long.
        length = int(made["attention_mask"].sum(1).min())
        made = tokenizer(list(lines), **how, max_length=length)
    names = ("input_ids", "attention_mask", "token_type_ids")
    return {name: made[name] for name in names if name in made}


@torch.no_grad()
def apart(ours: Model, theirs: Any, batch: dict[str, torch.Tensor]) -> tuple[float, float]:
    """The largest difference of states, and of what the class's head says."""
    real = batch["attention_mask"].bool()
    mine, base = encoded(ours, batch), theirs.base_model(**batch)
    states = float((mine - base.last_hidden_state)[real].abs().max())
    tasks = [task for stage in ours.resolved.stages for task in stage.tasks]
    if tasks:
        said, wanted = test_tasks.said(ours, tasks[0], batch), test_tasks.hf_says(theirs, batch)
        pairs = zip(said, wanted, strict=True)
        apart = [(a - b)[real] if a.shape[:2] == real.shape else a - b for a, b in pairs]
        return states, max(float(difference.abs().max()) for difference in apart)
    output = theirs(**batch)
    logits = output.get("prediction_logits", output.get("logits"))
    if logits is None or logits.ndim != 3:
        return states, 0.0
    return states, float((mlm_logits(ours, mine) - logits)[real].abs().max())


if __name__ == "__main__":
    sys.exit(main())
