"""Commands on trained runs: evaluation, predictions, export and import."""

from pathlib import Path
from typing import Literal

import typer

from bertc.base.diagnostics import UsageError
from bertc.base.storage.durable import replace
from bertc.cli.options import JsonOption, RunArgument, app, argument, option, refuse_others, say


@app.command("eval")
def evaluate(
    runs: list[Path] = argument(..., "a run or model; several runs, or folders, as one table"),
    data: str = option("", "text to evaluate on, all of it: a path, or files('a.txt')"),
    objective: str = option("", "other terms than it learned: of a run with sop, nsp"),
    seq: int = option(0, "tokens per row of a stream [0: as trained]", min=0),
    memory: int | None = option(None, "tokens of the memory [default: as trained]", min=0),
    clamp: int = option(0, "largest distance, as which more count", min=0),
    same_length: bool = option(False, "every token attends to --memory tokens", "--same-length"),
    examples: int = option(0, "held-out rows, tokens or examples [0: as trained]", min=0),
    task: str = option("", "its name, or with a file to score: classify('test.tsv')"),
    part: str = option("", "the part of a task's files to score: test, train [default: dev]"),
    pairs: str = option("", "a folder of minimal pairs, such as BLiMP's, or one of its files"),
    last: bool = option(False, "rank the last token of each row among all: hit@10, ...", "--last"),
    json: JsonOption = False,
) -> None:
    """Evaluate the newest good checkpoint of a run: held-out text, examples of a task, pairs."""
    from bertc.lab.results.evaluations import evaluate_runs
    from bertc.run.evaluation.evaluate import evaluate_run
    from bertc.run.evaluation.manner import Manner
    from bertc.run.records.folder import RunFolder

    how = (seq, memory, clamp, same_length, examples, data, objective, pairs, last)
    first = RunFolder(runs[0])
    if len(runs) == 1 and (first.holds_a_run or first.holds_a_model):
        report = evaluate_run(runs[0], Manner(*how), task=task, part=part)
        say(report.as_json() if json else report.as_table())
        return
    results = evaluate_runs(runs, Manner(*how), task=task, part=part)
    say(results.as_json() if json else results.as_table())


@app.command()
def fill(
    run: RunArgument,
    text: str = argument(..., "a text with [MASK], or <mask>; for clm the start of a text"),
    top: int = option(5, "candidates for each mask", min=1, max=100),
    language: str = option("", "of the text, for models with languages"),
    json: JsonOption = False,
) -> None:
    """Predict masked tokens, or the next token."""
    from bertc.use.fill_mask import fill as answer

    report = answer(run, text, top, language)
    say(report.as_json() if json else report.summary())


@app.command()
def predict(
    run: RunArgument,
    file: Path = argument(..., "rows in the layout of the task"),
    task: str = option("", "its name, or with the columns of the file"),
    out: Path | None = option(None, "a new .jsonl, .csv, .tsv or .parquet file", "-o", "--out"),
    labels: str | None = option(None, 'names of spans to find, as in "person, drug"'),
    precision: Literal["auto", "fp32", "bf16"] | None = option(
        None, "auto: bf16 where it is fast, about 0.001 off in scores [default: the run's]"
    ),
    device: str = option("auto", "auto, cpu or cuda"),
) -> None:
    """Answer the rows of a file with a fine-tuned model; a JSON object per row, or a file."""
    from bertc.use.answer_files import check_out
    from bertc.use.predict import predict_parts, write_answers

    if out is not None:
        check_out(out)
    parts = predict_parts(run, file, task, device, labels, precision)
    say(write_answers(parts, file, out, say), err=True)


@app.command("embed")
def embed_(
    run: RunArgument,
    file: Path = argument(..., "a text a line, or .csv, .tsv, .jsonl, .parquet; or a pattern"),
    out: Path | None = option(None, "vectors.npy, or .parquet with texts", "-o", "--out"),
    near: str = option("", "a text: print the rows nearest to it, a JSON object each"),
    top: int = option(5, "rows that --near prints", min=1),
    column: str = option("", "the column of the text [default: text]", "--text"),
    pooling: str = option("", "mean, cls, max or last [default: as in its folder, else mean]"),
    normalise: bool | None = option(None, "vectors of length 1"),
    prompt: str = option("", "a prompt of its folder by name: query, ..."),
    width: int = option(0, "numbers of a vector, 0: all (widths=)", min=0),
    precision: Literal["auto", "fp32", "bf16"] = option("fp32", "auto: what is fast there"),
    device: str = option("auto", "auto, cpu or cuda"),
) -> None:
    """Write a vector for each text of a file, or print those nearest to a text."""
    from bertc.use.answer_files import answer_lines
    from bertc.use.embed import embed_file, refuse_other_files, write_vectors

    if out is not None:
        refuse_other_files(out)
    elif not near:
        raise UsageError("embed needs a file to write", help="-o vectors.npy, or --near TEXT")
    rows, embedded, nearest = embed_file(
        run, file, pooling, column=column, near=near, top=top, normalise=normalise, prompt=prompt,
        width=width, to=out, device=device, precision=precision,
    )  # fmt: skip
    for line in answer_lines([nearest]):
        say(line)
    if out is not None:
        write_vectors([row.text for row in rows], embedded, out)
    say("\n".join([embedded.summary(), *([str(out)] if out else [])]), err=bool(near))


@app.command("export")
def export_(
    context: typer.Context,
    run: RunArgument,
    to: Path | None = option(None, "the Hugging Face folder to write"),
    onnx: Path | None = option(None, "the folder to write an ONNX graph to"),
    static: Path | None = option(None, "the folder to write a table of token vectors to"),
    int8: bool = option(False, "with --onnx: write the graph with int8 weights too", "--int8"),
    pooling: str = option("", "with --to: for sentence-transformers, by mean, cls, max or last"),
    code: bool = option(False, "with --to: with its own classes", "--code"),
    adapter: bool = option(False, "with --to: peft's layout", "--adapter"),
    proof: bool = option(False, "with vectors that bertc verify compares others with", "--proof"),
    revision: str = option(
        "main",
        "step-1000 or chck_1M: the weights after that step or those words; all: main and those of "
        "save_at",
    ),
) -> None:
    """Write a run's model as a Hugging Face folder or ONNX graph, or name what is in the way."""
    if not (to or onnx or static) or int8 and onnx is None:
        message = "--int8 is of an ONNX graph" if int8 else "export needs a folder to write"
        raise UsageError(message, "--onnx FOLDER" if int8 else "--to, --onnx or --static FOLDER")
    from bertc.use.card import export_adapter_with_card, export_with_card, revisions

    if adapter:
        refuse_others(context, "an adapter alone", ("to", "adapter"))
        say(export_adapter_with_card(run, to or Path()).summary())
    else:
        proves = proof and bool(to or onnx)
        some = ["pooling", "code"] * (to is not None) + ["proof"] * proves
        some += ["revision"] * (onnx is None and static is None and not proof)
        what = "a proof" if proves else "an export to Hugging Face" if to else "an export"
        refuse_others(context, what, ("to", "onnx", "static", "int8", *some))
        for name, step in revisions(run, revision).items() if to else ():
            place = to / name if to and revision == "all" and step else to
            if place:
                say(export_with_card(run, place, pooling, step, code=code).summary())
    if onnx is not None:
        from bertc.lab.onnx.folder import export_onnx

        say(export_onnx(run, onnx, int8=int8).summary())
    if static is not None:
        from bertc.use.embed import export_static

        say(export_static(run, static).summary())
    for folder in filter(None, (to, onnx) if proof else ()):
        from bertc.lab.proof.making import make_proof

        for name, content in make_proof(run, folder, calibrated=folder == to).files().items():
            replace(folder / name, content, elsewhere="name another folder")
            say(f"{folder / name}: {len(content):,} bytes")


@app.command("verify")
def verify_(
    proof: Path = argument(..., "the folder of an export with --proof, or its proof.json"),
    target: str = argument(..., "a run, a folder of transformers or ONNX, or 'a command'"),
    precision: Literal["fp32", "bf16", "int8"] = option("fp32", "whose tolerance is taken"),
    json: JsonOption = False,
) -> None:
    """Compare what another program computes with a proof, and name the first layer that differs.

    A command reads requests and writes answers, JSON objects a line: docs/how-to/anywhere.md.
    """
    from bertc.lab.proof.verifying import verify

    report = verify(proof, target, precision)
    say(report.as_json() if json else report.as_table())
    raise typer.Exit(report.first is not None)


@app.command("import")
def import_(
    folder: Path = argument(..., "a Hugging Face folder of the BERT family"),
    out: Path = option(..., "the run folder to write"),
) -> None:
    """Read a Hugging Face folder into a run folder."""
    from bertc.run.models.runs import import_run

    say(import_run(folder, out).summary(out))
