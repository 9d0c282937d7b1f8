"""The model card of an exported folder, README.md: what the run there says of itself, in lines."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bertc.base.diagnostics import MissingInputError, escaped, listed, several
from bertc.base.storage import durable
from bertc.base.storage.paths import is_file, is_taken, without_folders
from bertc.base.storage.plain_file import read_text
from bertc.cost.units import duration_text
from bertc.hub.families.family import Obstacle
from bertc.hub.folders import MODULES, checkpoint_at
from bertc.hub.leaving.adapter_folder import ADAPTER
from bertc.hub.leaving.exporting import CODE, Exported, scores_next
from bertc.hub.leaving.target import target_of
from bertc.hub.networks import alone
from bertc.hub.published import hub_name
from bertc.ir.changing.growth import FromOther
from bertc.ir.learning.objective import loss_title
from bertc.ir.program import Resolved, TaskStage, model_weights
from bertc.lang.files import OVERRIDE
from bertc.run.models import runs
from bertc.run.models.loading import newest_step
from bertc.run.records.calibration import divide_by_temperatures
from bertc.run.records.folder import RunFolder
from bertc.run.records.metrics import ends_until
from bertc.run.records.results import values_of
from bertc.text.vocab.vocabulary import vocabulary_of

_SPEC_LINES, _TEXTS, _SCORES, MOST_BYTES = 16, 6, 10, 2**20
UNLICENSED = "# license: to fill in, as apache-2.0; it has to fit the texts and the base model"
_PIPELINES = {
    "ForMaskedLM": "fill-mask", "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification", "ForQuestionAnswering": "question-answering",
    "ForMultipleChoice": "multiple-choice",
}  # fmt: skip


def export_with_card(
    run: Path, to: Path, pooling: str = "", step: int = 0, *, code: bool = False
) -> Exported:
    """Export a run, with a card of at most 60 lines; a model folder has none.

    The weights are those after ``step`` steps, 0: the newest.
    With ``code``, and where no layout fits, the folder has the program's own classes.
    """
    resolved, tensors = runs.model_after(run, step)
    words, folder = vocabulary_of(run, resolved.encoder.vocab_size), RunFolder(run)
    fits = target_of(alone(resolved), tensors, words.pad, runs.present_layout(run))
    if code or (isinstance(fits, Obstacle) and not pooling):
        from bertc.use.source.code_folder import export_code

        tensors, fitted = divide_by_temperatures(run, resolved, tensors)
        exported = export_code(resolved, tensors, words, to)
        exported = replace(exported, notes=(*exported.notes, *fitted))
    else:
        exported = runs.export_run(run, to, pooling, step)
    return _with_card(folder, exported, step) if is_taken(folder.resolved) else exported


def revisions(run: Path, named: str) -> dict[str, int]:
    """The revisions that a name is of, with their steps: step-1000, chck_1M.

    ``all`` are main and those of save_at. ``main`` is the newest, step 0.
    """
    save_at = RunFolder(run).read_resolved().run.save_at if named != "main" else ()
    known = {saved.name: saved.step for saved in save_at if checkpoint_at(run, saved.step)}
    if step := re.fullmatch(r"step-0*([1-9]\d*)", named):
        return {named: int(step[1])}
    steps = {"main": 0, **known}
    if named in steps or (named == "all" and known):
        return steps if named == "all" else {named: steps[named]}
    names = f"its revisions are {listed(known)}" if known else "save_at=[1M words] saves one"
    raise MissingInputError(f"{run} has no checkpoint for --revision {named}", help=names)


def export_adapter_with_card(run: Path, to: Path) -> Exported:
    """Export the newest adapter of a run alone, with a card."""
    return _with_card(RunFolder(run), runs.export_adapter_of(run, to), 0)


def _with_card(folder: RunFolder, exported: Exported, step: int) -> Exported:
    resolved = folder.read_resolved().merged
    lines = [*_front(resolved, exported), "", *_body(folder, resolved, exported, step)]
    text = "\n".join(escaped(without_folders(line)) for line in lines)
    durable.replace(exported.folder / "README.md", f"{text}\n".encode())
    return exported


def _front(resolved: Resolved, exported: Exported) -> Iterator[str]:
    """The lines of YAML that the hub reads."""
    pools = is_file(exported.folder / MODULES)
    yield from ("---", UNLICENSED)
    texts = [s.data for s in resolved.stages if not isinstance(s, TaskStage)]
    spoken = {name for data in texts for share in data for name in share.corpus.languages}
    if languages := sorted({*resolved.languages, *spoken} - {""}):
        yield f"language: {json.dumps(languages)}"
    library = "sentence-transformers" if pools else exported.library
    library = exported.layout if exported.layout == ADAPTER else library
    yield f"library_name: {library}"
    if isinstance(init := resolved.run.init, FromOther):
        published = hub_name(init.path)
        remark = "" if published else " # the folder it began with; its name on the hub?"
        yield f"base_model: {json.dumps(published or Path(init.path).absolute().name)}{remark}"
    if way := _pipeline(resolved, exported):
        yield f"pipeline_tag: {way}"
    yield from (f"tags: {json.dumps(list(dict.fromkeys(['bertc', exported.layout])))}", "---")


def _pipeline(resolved: Resolved, exported: Exported) -> str:
    """The hub's word for what the model does; "" if it has none."""
    if is_file(exported.folder / MODULES):
        return "sentence-similarity"
    way = next((way for e, way in _PIPELINES.items() if exported.architecture.endswith(e)), "")
    return "" if way == "fill-mask" and scores_next(resolved) else way


def _body(folder: RunFolder, resolved: Resolved, exported: Exported, step: int) -> Iterator[str]:
    encoder, last = resolved.encoder, resolved.stages[-1]
    count = sum(weight.numel for weight in model_weights(resolved) if "heads." not in weight.name)
    way = _pipeline(resolved, exported)
    yield from (f"# Encoder{' for ' * bool(way)}{way}, {exported.layout} layout", "")
    size = f"{several(encoder.depth, 'layer')} of {encoder.hidden:,}, {count:,} parameters"
    spec = read_text(folder.spec, MOST_BYTES).splitlines() if is_file(folder.spec) else []
    spec.sort(key=lambda line: not line.startswith(OVERRIDE))  # what was changed is not cut off
    of_spec = f" of the spec {resolved.name}:" if spec else "."
    yield from (f"An encoder of {size} without heads, made by bertc{of_spec}", "")
    yield from _shown([line for line in spec if line.strip()], _SPEC_LINES, "lines")
    if lock := folder.read_lock():
        step = step or newest_step(folder.path) or resolved.steps
        yield from _training(folder, resolved, step, [*lock.contents])
    else:
        yield "Imported: what it was trained on is not known here."
    yield from ("", "## Use", "")
    if is_file(exported.folder / MODULES):
        sparse = any(getattr(task, "is_sparse", False) for task in last.tasks)
        kind = "SparseEncoder" if sparse else "SentenceTransformer"
        yield f"    from sentence_transformers import {kind}"
        yield f'    {kind}("FOLDER").encode(["a text"])'
    elif exported.library == "gliner":
        yield "    from gliner import GLiNER"
        yield '    GLiNER.from_pretrained("FOLDER").predict_entities("a text", ["person"])'
    elif exported.layout != ADAPTER:
        called = '"FOLDER"' + ", trust_remote_code=True" * (exported.layout == CODE)
        name = exported.architecture
        yield f"    from transformers import AutoTokenizer, {name}"
        yield f"    model = {name}.from_pretrained({called})"
        yield f"    tokenizer = AutoTokenizer.from_pretrained({called})"
    yield ""
    yield from (f"* {note}" for note in exported.notes)
    yield f"* rows have at most {encoder.room or last.seq:,} tokens, in training {last.seq:,}"


def _training(folder: RunFolder, resolved: Resolved, step: int, texts: list[str]) -> Iterator[str]:
    """The text, the settings and the scores of the weights after a step."""
    most = 0.0 if folder.is_finished(resolved) else resolved.run.most_seconds
    resolved = folder.fix_steps(resolved)
    lines = [line for line in folder.read_metrics() if line["step"] <= step]
    tokens = max((line.get("tokens", 0) for line in lines), default=0)
    tokens, _ = folder.counted_until(step) or (tokens, 0.0)
    left_out, ends = ends_until(step, lines)
    planned = duration_text(most) if most else several(resolved.steps, "step")
    yield f"## Training, {'stopped at step ' * bool(most)}{step - left_out:,} of {planned}"
    yield from ("", f"It read {tokens:,} tokens, padding of rows included.", *ends)
    yield from ("Its files, with those that it was evaluated on:", "")
    yield from _shown(texts, _TEXTS, "texts")
    for stage in resolved.stages:
        learns = " + ".join(term.name for term in stage.objective)
        rows = f"{several(stage.steps, 'step')} of {stage.batch:,} x {stage.seq:,} tokens"
        with_ = f"{stage.optimizer.kind}, seed {resolved.run.seed}"
        yield f"- {stage.name or 'main'}: {learns}, {rows}, {with_}"
    scored = [line for line in lines if line["kind"] == "eval" and line["step"] == step]
    if not scored:
        return
    yield from ("", "Scores of these weights on held-out text, or on the part that is named:", "")
    last = scored[-1]
    accuracy, unigram = last.get("accuracy", {}), last.get("unigram_losses", {})
    scores = []
    for score, value in values_of(last.get("scores", {}), last["losses"]).items():
        line = f"{' '.join(score)}: {value:.4f}"
        if len(score) == 1:
            (name,) = score
            line = f"{loss_title(name)}: loss {value:.4f}"
            line += f", by token frequency {unigram[name]:.4f}" if name in unigram else ""
            line += f", accuracy {accuracy[name]:.1%}" if name in accuracy else ""
        scores.append(line)
    yield from _shown(scores, _SCORES, "scores")


def _shown(lines: list[str], most: int, what: str) -> Iterator[str]:
    """The first lines as they are, and an empty one."""
    yield from (f"    {line}" for line in lines[:most])
    if len(lines) > most:
        yield f"    ... and {len(lines) - most:,} more {what}"
    yield ""
