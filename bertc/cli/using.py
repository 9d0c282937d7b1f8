"""Commands on trained runs: evaluation, predictions, export and import."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from bertc.base.diagnostics import UsageError
from bertc.cli.options import JsonOption, RunArgument, app, refuse_others, say

PartOption = Annotated[
    str, Option(help="the part of a task's files to score: test, train [default: dev]")
]
PairsOption = Annotated[
    str, Option(help="a folder of minimal pairs, such as BLiMP's, or one of its files")
]


@app.command("eval")
def evaluate(
    runs: Annotated[
        list[Path], Argument(help="a run folder; several, or folders of them, as one table")
    ],
    data: Annotated[
        str, Option(help="text to evaluate on, all of it: a path, or files('a.txt')")
    ] = "",
    objective: Annotated[
        str, Option(help="other terms than it learned: of a run with sop, nsp")
    ] = "",
    seq: Annotated[int, Option(min=0, help="tokens per row of a stream [0: as trained]")] = 0,
    memory: Annotated[
        int | None, Option(min=0, help="length of the memory in tokens [default: as trained]")
    ] = None,
    clamp: Annotated[int, Option(min=0, help="largest distance, as which more count")] = 0,
    same_length: Annotated[
        bool, Option("--same-length", help="every token attends to --memory tokens")
    ] = False,
    sliding: Annotated[int, Option(min=0, help="predict each token from so many before it")] = 0,
    stride: Annotated[int, Option(min=1, help="tokens that each window of --sliding predicts")] = 1,
    examples: Annotated[
        int, Option(min=0, help="held-out rows, tokens or examples [0: as trained]")
    ] = 0,
    task: Annotated[
        str, Option(help="its name, or with a file to score: classify('test.tsv')")
    ] = "",
    part: PartOption = "",
    pairs: PairsOption = "",
    json: JsonOption = False,
) -> None:
    """Evaluate the newest good checkpoint of a run: held-out text, examples of a task, pairs."""
    from bertc.base.storage.paths import is_file
    from bertc.lab.results.evaluations import evaluate_runs
    from bertc.run.evaluation.evaluate import evaluate_run
    from bertc.run.evaluation.manner import Manner
    from bertc.run.records.folder import RunFolder

    how = (seq, memory, clamp, same_length, sliding, examples, stride, data, objective, pairs)
    is_model = bool(pairs) and is_file(runs[0] / "config.json")
    if len(runs) == 1 and (is_model or RunFolder(runs[0]).holds_a_run):
        report = evaluate_run(runs[0], Manner(*how), task=task, part=part)
        say(report.as_json() if json else report.as_table())
        return
    results = evaluate_runs(runs, Manner(*how), task=task, part=part)
    say(results.as_json() if json else results.as_table())


@app.command()
def fill(
    run: RunArgument,
    text: Annotated[str, Argument(help="a text with [MASK]; for clm the start of a text")],
    top: Annotated[int, Option(min=1, max=100, help="candidates for each mask")] = 5,
    language: Annotated[str, Option(help="of the text, for models with languages")] = "",
    json: JsonOption = False,
) -> None:
    """Predict masked tokens, or the next token, or which tokens of a text are replaced."""
    from bertc.use.fill_mask import fill as answer

    report = answer(run, text, top, language)
    say(report.as_json() if json else report.summary())


@app.command()
def predict(
    run: RunArgument,
    file: Annotated[Path, Argument(help="rows in the layout of the task")],
    task: Annotated[str, Option(help="its name, or with the columns of the file")] = "",
    out: Annotated[
        Path | None, Option("-o", "--out", help="a new .jsonl, .csv, .tsv or .parquet file")
    ] = None,
    device: Annotated[str, Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Answer the rows of a file with a fine-tuned model; a JSON object per row, or a file."""
    from bertc.use.answer_files import check_out
    from bertc.use.predict import predicted_parts, write_answers

    if out is not None:
        check_out(out)
    say(write_answers(predicted_parts(run, file, task, device), file, out, say), err=True)


@app.command("embed")
def embed_(
    run: RunArgument,
    file: Annotated[Path, Argument(help="one text a line")],
    out: Annotated[Path, Option("-o", "--out", help="vectors.npy, or .parquet with texts")],
    pooling: Annotated[
        str, Option(help="mean, cls or max; default: as trained or as its folder says, else mean")
    ] = "",
    normalise: Annotated[bool | None, Option(help="vectors of length 1")] = None,
    prompt: Annotated[str, Option(help="a prompt of its folder by name: query, ...")] = "",
    width: Annotated[int, Option(help="numbers of a vector, 0: all (widths=)", min=0)] = 0,
    precision: Annotated[
        Literal["auto", "fp32", "bf16"], Option(help="auto: what is fast there")
    ] = "fp32",
    device: Annotated[str, Option(help="auto, cpu or cuda")] = "auto",
) -> None:
    """Write a vector for each line of a file, from the hidden states of a model."""
    from bertc.use.embed import embed_file, refuse_other_files, write_vectors

    refuse_other_files(out)
    texts, embedded = embed_file(
        run, file, pooling, normalise=normalise, prompt=prompt, width=width, device=device,
        precision=precision,
    )  # fmt: skip
    write_vectors(texts, embedded, out)
    say(f"{embedded.summary()}\n{out}")


WITHOUT_PUSH = ("to", "onnx", "int8", "pooling", "code")
"""The options of an export to a folder."""


@app.command("export")
def export_(
    context: typer.Context,
    run: RunArgument,
    to: Annotated[Path | None, Option(help="the Hugging Face folder to write")] = None,
    onnx: Annotated[Path | None, Option(help="the folder to write an ONNX graph to")] = None,
    int8: Annotated[
        bool, Option("--int8", help="with --onnx: write the graph with int8 weights too")
    ] = False,
    pooling: Annotated[
        str, Option(help="with --to: for sentence-transformers too, by mean, cls or max")
    ] = "",
    code: Annotated[bool, Option("--code", help="with --to: with its own classes")] = False,
    adapter: Annotated[bool, Option("--adapter", help="with --to: peft's layout")] = False,
    push: Annotated[str, Option(help="send the folder to the hub: user/name")] = "",
    revision: Annotated[
        str, Option(help="with --push: the branch; step-1000 has the weights after that step")
    ] = "main",
    private: Annotated[bool, Option("--private", help="with --push: for you alone")] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="with --push: list what would be sent")
    ] = False,
) -> None:
    """Write a run's model as a Hugging Face folder or ONNX graph, or name what is in the way.

    With --push it goes to the hub, by the token of HF_TOKEN or of hf auth login.
    """
    if to is None and onnx is None and not push or int8 and onnx is None:
        raise UsageError(
            "--int8 is of an ONNX graph" if int8 else "export needs a folder to write",
            help="--onnx FOLDER" if int8 else "--to FOLDER, --onnx FOLDER, or --push user/name",
        )
    if pooling and to is None and not push:
        raise UsageError("--pooling is of a Hugging Face folder", help="--to FOLDER")
    if adapter:
        _export_adapter(context, run, to or Path())
    elif push:
        from bertc.use.pushing import Destination
        from bertc.use.pushing import push as send

        say(send(run, to, pooling, Destination(push, revision, private), dry_run))
    else:
        refuse_others(context, "an export without --push", WITHOUT_PUSH)
    if to is not None and not push and not adapter:
        from bertc.use.card import export_with_card

        say(export_with_card(run, to, pooling, code=code).summary())
    if onnx is not None:
        from bertc.lab.onnx.folder import export_onnx

        say(export_onnx(run, onnx, int8=int8).summary())


def _export_adapter(context: typer.Context, run: Path, to: Path) -> None:
    from bertc.use.card import export_adapter_with_card

    refuse_others(context, "an adapter alone", ("to", "adapter"))
    say(export_adapter_with_card(run, to).summary())


@app.command("import")
def import_(
    folder: Annotated[Path, Argument(help="a Hugging Face folder of the BERT family")],
    out: Annotated[Path, Option(help="the run folder to write")],
) -> None:
    """Read a Hugging Face folder into a run folder."""
    from bertc.run.models.runs import import_run

    say(import_run(folder, out).summary())
