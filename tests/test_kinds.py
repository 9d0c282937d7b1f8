"""Every kind of every union in the smallest network: built as counted, trained, or refused."""

import os
import re
import subprocess
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
import torch
from ruff.__main__ import find_ruff_bin

from bertc.api import resolve
from bertc.base.diagnostics import Diagnostics, SpecError
from bertc.check.compiling import check_spec
from bertc.cost import estimate
from bertc.hub.families.family import Obstacle
from bertc.hub.leaving.exporting import export_model
from bertc.hub.leaving.target import target_of
from bertc.hub.networks import alone
from bertc.ir.base import Node
from bertc.ir.learning.answer import NamedSpans, Score, Several, Span, Tags, Vector
from bertc.ir.network import sharing
from bertc.ir.network.body_node import OF_TRANSFORMERS
from bertc.ir.network.positions import BucketedPositions
from bertc.ir.program.resolved import Resolved, head_weights, model_weights, trained_names
from bertc.ir.program.stage import METHODS, TaskStage
from bertc.learn.step.feed import to_inputs, to_micro_batch
from bertc.model import build
from bertc.run.beginning.synthetic import RandomText
from bertc.run.train.state import grow_model
from bertc.tasks.examples.task import TaskBatch
from bertc.text.sources.opening import open_source
from bertc.use.source.checking import check_source, load_source, random_weights
from bertc.use.source.file import emit_source
from tests.bench.rig import make_step
from tests.hub.programs import Wordless, leaves_with_code, tensors
from tests.kinds import CLASSIFY, NETWORKS, UNIONS
from tests.net.programs import FARM, copied

TOY = {
    "layers": 2, "hidden": 16, "heads": 2, "head_dim": 8, "ffn": 16, "vocab": 100, "seq": 32,
    "batch": 4, "steps": 4, "precision": "fp32",
}  # fmt: skip
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CPU = torch.device("cpu")
LEFT, TRAINED = set[str](), set[str]()  # of networks, and of stages, that are alike one


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory):
    """The farm, with a model of the toy's size in it."""
    before, here = Path.cwd(), tmp_path_factory.mktemp("farm")
    copied(FARM, here)
    os.chdir(here)
    pieces = [*SPECIAL_TOKENS, *(f"w{number}" for number in range(95))]
    Path("vocab.txt").write_text("\n".join(pieces) + "\n")
    toy = resolve(spec(""))
    export_model(toy, tensors(toy), Wordless(0), Path("bert"), strict=True)
    yield
    os.chdir(before)


def spec(text):
    """The toy with these settings, and without what they say themselves."""
    written = {*re.findall(r"(?:^| )(\w+)=", re.sub(r"'.*?'|\(.*?\)", "", text))}
    written |= {*OF_TRANSFORMERS} if "body=" in text else set()
    settings = " ".join(f"{name}={value}" for name, value in TOY.items() if name not in written)
    return re.sub(r"(?<= )\w+=(?= )", "", f"{settings} {text}")


def test_the_table_has_every_kind_of_every_union():
    assert {union: {*kinds} for union, kinds in NETWORKS.items()} == UNIONS


@pytest.mark.parametrize(("union", "kind"), [(u, kind) for u in NETWORKS for kind in NETWORKS[u]])
def test_a_kind_is_counted_trained_and_exported_or_refused(union, kind, own_modules, tmp_path):
    for more in ("", "heads=[2,4] pack=true", "heads=[2,4]", "pack=true"):
        try:
            resolved = resolve(spec(f"{more} {NETWORKS[union][kind]}"))
        except SpecError:
            assert more
            continue
        stages = [stage.model_dump(exclude={"name", "data", "mixing"}) for stage in resolved.stages]
        if (alike := repr(stages)) not in TRAINED:
            TRAINED.add(alike)
            _built_and_trained(resolved)
        if not more:
            _leaves(resolved.merged, tmp_path / "left")
        elif " " in more:
            break  # either alone is for kinds that refuse the other


@pytest.mark.parametrize("kind", sorted({*NETWORKS["corpus"]} - {"prepared"}))
def test_a_source_that_passes_its_check_is_read(kind):
    Path("tables").mkdir(exist_ok=True)
    Path("tables/a.jsonl").write_text('{"text": "a b"}\n')
    text = spec(NETWORKS["corpus"][kind].replace("nobody/nothing", "tables"))
    (program,) = check_spec(text, (), Diagnostics())
    assert next(open_source(program.stages[0].data[0].corpus).read()).text


def _leaves(resolved, folder):
    """It leaves as a folder with own code, or as a file, without heads that read other states."""
    last = alone(resolved).stages[-1]
    heads = [(t.head_node, getattr(t, "answer", "")) for t in (t.objective for t in last.objective)]
    if (network := repr((last.encoder.model_copy(update={"initializer": None}), heads))) in LEFT:
        return
    LEFT.add(network)
    if leaves_with_code(resolved, folder):
        (file,) = folder.glob("modeling_*.py")
        check = (find_ruff_bin(), "check", "--isolated", "--line-length=100", "--select=E,F,I,W")
        subprocess.run([*check, file], check=True, capture_output=True)
        return
    check_source(source := emit_source(resolved), resolved)
    shown = load_source(source, random_weights(resolved))(torch.ones(1, 8, dtype=torch.long))
    assert not shown.keys() & {task.head_name for task in last.tasks}


def _built_and_trained(resolved):
    model = build(resolved, device="meta")
    table = {weight.name: weight.shape for weight in model_weights(resolved)}
    assert {name: tuple(weight.shape) for name, weight in model.named_parameters()} == table
    built = sum(parameter.numel() for parameter in model.parameters())
    counted = estimate(resolved, "h200").parameters
    assert counted.total == built == sum(counted.by_part.values())
    assert counted.total == counted.encoder + counted.generator + counted.heads
    assert counted.encoder == counted.embeddings + counted.layers + counted.pooler
    assert counted.encoder == sum(weight.numel for weight in resolved.encoder.weights())
    assert counted.heads == sum(weight.numel for weight in head_weights(resolved))
    first, *later = resolved.stages
    step = make_step(resolved.as_in(first), first.batch)
    micro_batches = random_micro_batches(step)
    for number in range(2):
        step.gradients(micro_batches, number)
    learned = {name: w.grad for name, w in step.parameters.items() if w.grad is not None}
    assert learned.keys() == trained_names(first)
    assert all(gradient.isfinite().all() for gradient in learned.values())
    for stage in later:
        if stage.grow is not None:
            grow_model(resolved, first, stage, step.parameters, {})
    chosen = target_of(resolved, [weight.name for weight in model_weights(resolved)], pad=0)
    if isinstance(chosen, Obstacle):
        assert chosen.setting
        assert chosen.why


def random_micro_batches(step):
    """A batch of random tokens, of a task one example a row."""
    stage = step.stage
    text = RandomText(stage, stage.encoder.vocab_size).train(0)
    if not isinstance(stage, TaskStage):
        return step.read(to_inputs(text, CPU)).micro_batches
    (task,) = stage.tasks
    rows, answer = stage.batch * stage.rows_an_example, task.answer
    ids = np.resize(text.token_ids, (rows, stage.seq))
    read = stage.seq if isinstance(answer, Tags | NamedSpans) else 1
    several = isinstance(answer, Span | Several | Score) and answer.width > 1
    by_token = isinstance(answer, Span) or (isinstance(answer, Vector) and answer.pooling != "cls")
    shape = (rows, 1, answer.width) if several else (rows, read)
    batch = TaskBatch(
        task.title, ids, np.zeros_like(ids, np.uint8), np.ones_like(ids, np.int64),
        np.arange(read)[None].repeat(rows, 0), np.ones(shape), np.ones((rows, read), np.float32),
        np.ones_like(ids, bool)[:, : stage.seq if by_token else answer.kind == "named-spans"],
        np.arange(rows),
        reads_all=task.reads_all,
    )  # fmt: skip
    return [to_micro_batch(batch, CPU, stage)]


class Buckets(BucketedPositions):
    """A kind that states no more than its table: layers have to have as many heads."""

    kind: Literal["buckets"] = "buckets"  # type: ignore[assignment]
    positional = ("buckets", "distance")


def test_what_a_kind_shares_by_head_and_the_ranges_of_its_table_follow_from_its_weights():
    toy = Buckets(rows=32, buckets=32, distance=8)
    assert toy.ties_biases
    assert toy.ranges.problem.endswith("distance = 8 leaves nothing to the others")
    assert not Buckets(rows=32, buckets=32, distance=toy.ranges.least).ranges.problem


WITH_METHODS = {
    "RisingBatch": "batch_warmup=rising(2, 2)", "FallingMasks": "objective=mlm(40%, p_end=20%)",
    "RowMemory": "objective=clm attention=relative memory=8", "Clock": "steps=1h",
    "Lora": "adapt=lora(4)", "Freezing": "freeze=1", "Heads": "prune=heads(50%)",
    "Neurons": "prune=neurons(50%)", "Ema": "average=ema(2)", "Patience": f"{CLASSIFY}) patience=2",
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_a_method_that_a_spec_names_is_at_work_in_the_program(method):
    """A setting that no stage knew would be accepted, and do nothing."""
    text = WITH_METHODS[method.__name__]
    plain, program = resolve(spec(f"{CLASSIFY})" * ("task" in text))), resolve(spec(text))
    read = Resolved.model_validate_json(program.model_dump_json())
    there = {type(one) for of in (read.run, *read.stages) for one in of.methods}
    assert method in there or len(read.stages) > len(plain.stages), "a stage for each piece"
    assert program.fingerprint() != plain.fingerprint()


@pytest.mark.parametrize("kind", NETWORKS["share"])
def test_a_sharing_keeps_its_name(kind):
    """Two layers in a group are all, each in its own none."""
    names = {"groups": "all", "map": "none"}
    said = resolve(spec(NETWORKS["share"][kind])).encoder.settings()["share"]
    assert said.kind == names.get(kind, kind)


class Mirror(Node):
    """A kind of sharing by its class alone: the second half of the layers mirrors the first."""

    kind: Literal["mirror"] = "mirror"

    def owner(self, part, layer, depth):
        return min(layer, depth - 1 - layer)


def test_a_new_sharing_is_called_by_its_name_where_it_is_in_the_way(monkeypatch):
    monkeypatch.setattr(sharing, "Sharing", Annotated[Mirror | sharing.ShareAll, "as a union is"])
    resolved = resolve(spec("layers=4 share=map([0, 1, 1, 0])"))
    obstacle = target_of(resolved, [weight.name for weight in model_weights(resolved)], pad=0)
    assert obstacle.setting == "share=mirror"
