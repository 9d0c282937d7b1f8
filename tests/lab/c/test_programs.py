"""Programs in C: what they compute beside bertc, in a browser, damaged weights, and odd lines."""

import json
import re
import shlex
import shutil
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from bertc import load, resolve
from bertc.ir.vocabulary import ByteBpe
from bertc.lab.c import building
from bertc.lab.c.building import digest
from bertc.lab.c.int8 import Int8
from bertc.lab.proof.making import make_proof
from bertc.lab.proof.verifying import verify
from bertc.run.models import vectors
from bertc.text.vocab.learned import learn
from bertc.use.fill_mask import LONGEST_ROW
from tests.lab.c.programs import CHECKED, answered, compiled, largest_difference, small_graph
from tests.lab.onnx.conftest import NETWORK, TEXTS, run_of, table

BERT = f"{NETWORK} objective=mlm+sop format=segment-pair"
CUT = "1 of 14 lines are cut to 24 tokens, the first is line 13\n"
DOCS = Path(__file__).parents[3] / "docs/how-to"
ONE_LAYER = NETWORK.replace("layers=2", "layers=1")
SPECS = {
    "BERT": BERT,
    "ModernBERT": f"{NETWORK.replace('layers=2', 'layers=3')} objective=mlm "
    "positions=rotary(1000, local_theta=100) norm=pre(function=rms) activation=geglu "
    "attention=local(4, global_layers=[2], kv_heads=1)",
    "DeBERTa": f"{NETWORK} objective=mlm attention=disentangled(4, 4) embedding=16",
    "relative": f"{NETWORK} objective=mlm attention=relative residual=elc norm=pre",
    "ALiBi": f"{NETWORK} objective=mlm positions=alibi share=all "
    "table=adaptive([20, 60], 2) attention=full(gate=sigmoid)",
}
"""Specs that between them have most operations; layers are alike but in the relative one."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT."""
    return compiled(small_graph(resolve(BERT)), tmp_path_factory.mktemp("c") / "bert")


@pytest.mark.parametrize("name", SPECS)
def test_states_and_scores_are_those_of_bertc(name, tmp_path):
    program = compiled(graph := small_graph(resolve(SPECS[name])), tmp_path / "c")
    assert largest_difference(graph, program) < 1e-5
    text = program.with_suffix(".c").read_text()
    parts = "layer++" in text, "static void rms_norm(" in text
    assert parts == (name != "relative", "rms" in SPECS[name])
    assert max(map(len, text.splitlines())) < 2000


@pytest.mark.parametrize("machine", ["", "-U__SSE2__", "-mavx2 -mfma", "-march=native"])
def test_int8_computes_as_torch_does_with_rounded_matrices_and_rows(machine, tmp_path):
    graph = small_graph(resolve(SPECS["ModernBERT"]))
    program = compiled(graph, tmp_path / "c", f"{CHECKED} {machine}", int8=True)
    assert largest_difference(graph, program) > 0.02
    with Int8():  # a state near the middle of two numbers may round to either
        assert largest_difference(graph, program) < 0.01


def test_weights_that_are_damaged_or_of_another_model_are_refused(program):
    file, content = program.with_suffix(".weights"), program.with_suffix(".weights").read_bytes()
    other = content[:64] + bytes([content[64] ^ 1]) + content[65:]
    fresh = digest(other[64:]).to_bytes(8, "little")
    cases = {
        content[:40]: "damaged", content[:-1]: "damaged", b"": "damaged", content + b"x": "damaged",
        b"x" + content[1:]: "another model", other[:8] + fresh + other[16:]: "another model",
    }  # fmt: skip
    draw = np.random.default_rng(0)
    for place in (24, 63, 64, len(content) - 1, *draw.integers(64, len(content), 20)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(draw.integers(8))
        cases[bytes(flipped)] = "damaged"
    for damaged, said in cases.items():
        file.write_bytes(damaged)
        code, lines, error = answered(program, "5 6")
        assert (code, lines, said in error) == (1, [], True), error
    words = np.zeros(1 << 15, np.uint64)  # two changes of last bytes once cancelled each other
    words[[12_767, 18_023]] = 50 << 56
    assert digest(words.tobytes()) != digest(bytes(words.nbytes))
    file.unlink()
    assert "cannot be read" in answered(program, "5 6")[2]
    file.write_bytes(content)
    assert answered(program, "5 6")[0] == 0


@pytest.mark.parametrize(("line", "said"), [
    ("", "no tokens"), ("5 97", "none of the model's"), ("5 x", "no request"),
    ("-1", "no request"), ("5 99999999999999999999", "none of the model's"),
    ("5 6\t0", "no request"), ("5\t2", "none of the model's"), (" ".join("5" * 25), "more tokens"),
])  # fmt: skip
def test_a_line_that_is_no_row_of_the_model_is_an_error(line, said, program):
    code, lines, error = answered(program, "\ufeff5 6", line, "5 6")
    assert (code, len(lines), error[:15]) == (1, 1, "error: line 2: ")
    assert said in error


def test_a_program_passes_the_proof_of_its_run(program, tmp_path, call):
    run = run_of(tmp_path / "run", BERT)
    for name, content in make_proof(run, tmp_path).files().items():
        (tmp_path / name).write_bytes(content)
    report = verify(tmp_path, f"{program} --proof {program.with_suffix('.weights')}")
    assert (report.first, report.missing, len(report.stages)) == (None, (), 6)
    requests = ['{"text": "\\ud83d\\ude00", "ids": [5], "positions": [3]}', '{"ids": [5}', "{", "5"]
    for request in requests[1:]:
        assert answered(program, request, mode="--proof")[0] == 1
    assert answered(program, requests[0], mode="--proof")[:2] == (0, ['{"tokens": [5]}'])


def built(run: Path, to: Path, call) -> Path:
    """The program of a run, by the command line."""
    to.mkdir()
    code, said, _ = call("build", str(run), "-o", str(to / "answers.c"))
    assert (code, len(said.splitlines())) == (0, 3)
    flags = CHECKED.replace("-O1", "-O0").split()  # its few rows take less than to optimise it
    subprocess.run(["gcc", *flags, "answers.c", "-o", "model", "-lm"], check=True, cwd=to)
    return to / "model"


def test_texts_are_answered_as_predict_and_embed_and_fill_do(tmp_path, tasks, call):
    letters = table(tmp_path / "letters.tsv", "words tags", [("abc", "XYO")])
    some = [tasks[name].replace(")", ", stride=5)") for name in ("classify", "regress", "tag")]
    sent = [*TEXTS, " ".join(TEXTS), "\u0301 w5\u00a0w6 \u0301"]  # windows, and no tokens
    for number, task in enumerate([*some, f"tag({letters}, letters=true)"]):
        run = run_of(tmp_path / f"{number}", f"{ONE_LAYER} task={task}")
        code, lines, error = answered(built(run, tmp_path / f"c {number}", call), *sent, mode="")
        assert (code, error) == (0, CUT * ("letters=" in task))
        for line, row in zip(lines, json.loads(json.dumps(load(run).predict(sent))), strict=True):
            assert json.loads(line) == {k: pytest.approx(v, abs=2e-6) for k, v in row.items()}
    assert (building.LONGEST_TEXT, building.LONGEST_ROW) == (vectors.LONGEST_TEXT, LONGEST_ROW)
    for how in ("pooling=sparse", "prompt='w5 w6 '"):
        (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
        task = f"embed('{tmp_path}/texts.txt', {how}) positions=alibi"
        run = run_of(tmp_path / how[:6], f"{ONE_LAYER} task={task}")
        _, lines, said = answered(built(run, tmp_path / f"c {how[:6]}", call), *sent, mode="")
        assert said == CUT
        for found, wanted in zip(map(json.loads, lines), load(run).embed(sent), strict=True):
            assert found.get("indices", wanted.nonzero()[0].tolist()) == [*wanted.nonzero()[0]]
            mine = found.get("vector") or found["weights"]
            assert mine == pytest.approx(wanted[wanted.nonzero()], abs=2e-6)
    masked = f"w7 [MASK]\tw9{' w8' * 20}[MASK]{' w9' * 20} w7 [MASK]"
    for name, vocab in (("clm", "words(97"), ("mlm", "bpe(300"), ("mlm", "words(97")):
        spec = f"{ONE_LAYER} objective={name}".replace("wordpiece(97", vocab)
        run, text = run_of(tmp_path / f"{name} {vocab}", spec), masked[: {"clm": 10}.get(name)]
        if "bpe" in vocab:
            learn(ByteBpe(size=300), TEXTS).save(str(run / "tokenizer/tokenizer.json"))
        program = built(run, tmp_path / f"c {name} {vocab}", call)
        _, (line,), said = answered(program, text, mode="")
        assert ("1 of 1 lines are cut" in said) == (text == masked)
        for mine, other in zip(json.loads(line)["masks"], load(run).fill(text).masks, strict=True):
            wanted = [(t.token, pytest.approx(t.probability, abs=2e-6)) for t in other]
            assert [(token["token"], token["probability"]) for token in mine] == wanted
    assert "UTF-8: byte 5 is 0xff;" in answered(program, "w8", "w\xe9 \udcff", mode="")[2]
    for name, content in make_proof(run, tmp_path).files().items():
        (tmp_path / name).write_bytes(content)
    command = [str(program), "--proof", str(program.with_name("answers.weights"))]
    report = verify(tmp_path, shlex.join(command))
    assert (report.first, report.missing) == (None, ())


def test_weights_are_in_the_program_and_int8_says_what_it_loses(tmp_path, monkeypatch, tasks, call):
    run = run_of(tmp_path / "run", f"{ONE_LAYER} task={tasks['classify']}")
    program = built(run, tmp_path / "c", call)
    assert "becomes a program in C" in call("build", str(run))[2]
    assert "bertc train" in call("build", "extends bert-base", "-o", "model.c")[2]
    source, inside = tmp_path / "c/inside.c", tmp_path / "inside"
    build = "build", str(run), "-o", str(source)
    code, said, _ = call(*build, "--embed", "--int8", "--most-loss", "100")
    assert (code, said.splitlines()[0].count("accuracy"), len(said.splitlines())) == (0, 1, 3)
    subprocess.run([*f"gcc {CHECKED}".split(), source, "-o", inside, "-lm"], check=True)
    answers = [answered(path, *TEXTS, mode="")[1] for path in (program, inside)]
    for mine, other in zip(*(map(json.loads, lines) for lines in answers), strict=True):
        assert mine["probabilities"] == pytest.approx(other["probabilities"], abs=0.03)
        assert mine["probabilities"] != other["probabilities"]
    for command in ([program, "x", "x"], [inside, "x"], [program, "-x"], [program, "--help"]):
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        wanted, said = 2 * ("--help" not in command), (ran.stdout, ran.stderr)[ran.returncode > 0]
        assert (ran.returncode, said[:7], said.count(b"\n")) == (wanted, b"usage: ", 3)
    scores = [0.8, 0.9]
    monkeypatch.setattr("bertc.lab.c.int8._judged", lambda _: ("f1", scores.pop()))
    code, _, error = call(*build, "--int8")
    assert (code, "f1: 90.00 in fp32, 80.00" in error, "--most-loss 10.1" in error) == (65, 1, 1)
    monkeypatch.setattr(building, "MOST_INSIDE", 1000)
    assert "add --int8" in call(*build, "--embed")[2]


def test_an_operation_or_setting_that_c_has_no_word_for_is_named(tmp_path, tasks, call):
    asked = f"{NETWORK} task={tasks['read'].replace(')', ', head=conditioned)')}"
    read = "body=bilstm vocab=wordpiece(97) seq=24 objective=mlm"
    for spec, said in ((asked, "head=conditioned"), (read, "as those of bilstm")):
        run = run_of(tmp_path / said[:4], spec)
        code, _, error = call("build", str(run), "-o", str(tmp_path / "model.c"))
        assert (code, said in error) == (65, True)
    assert not [*tmp_path.glob("model.*")]


def test_the_commands_of_the_page_build_a_program(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    run_of(Path("runs/mine"), f"{ONE_LAYER} objective=mlm")
    Path("texts.txt").write_text("w7 [MASK]\nw9 [MASK] w9\n")
    page = (DOCS / "anywhere.md").read_text()
    (block,) = re.findall(r"```sh\n(bertc build .*?)```", page, re.DOTALL)
    for line in block.splitlines():
        if line.startswith("bertc "):
            assert call(*shlex.split(line)[1:])[0] == 0
        else:
            said = subprocess.run(line, shell=True, check=True, capture_output=True).stdout
    assert [len(json.loads(answer)["masks"]) for answer in said.splitlines()] == [1, 1]


@pytest.mark.parametrize("int8", [(), ("--int8", "--most-loss", "100")])
def test_a_page_answers_as_bertc_does(int8, tmp_path, monkeypatch, tasks, call, browser):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    run = run_of(Path("runs/mine"), f"{NETWORK} task={tasks['classify']}")
    assert call("build", "runs/mine", "-o", "mine.c", *int8)[0] == 0
    page = (DOCS / "anywhere.md").read_text()
    (command,) = re.findall(r"^clang .*?(?=\n```)", page, re.DOTALL | re.MULTILINE)
    made = subprocess.run(command, shell=True, capture_output=True, text=True)
    if made.returncode and ("not found" in made.stderr or "No such file" in made.stderr):
        pytest.skip("there is no clang for WebAssembly on this machine")
    assert made.returncode == 0, made.stderr
    shutil.copy(DOCS / "anywhere.html", "index.html")
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    files = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), files)
    Thread(target=server.serve_forever, daemon=True).start()
    opened, labels, near = browser.new_page(), load(run).predict(TEXTS), 0.03 if int8 else 2e-6
    opened.goto(f"http://127.0.0.1:{server.server_port}/")
    opened.wait_for_selector("#text:not([disabled])")
    for text, wanted in zip(TEXTS, labels, strict=True):
        opened.fill("#text", text)
        said = json.loads(opened.inner_text("#answer"))
        assert said == pytest.approx(wanted["probabilities"], abs=near)
    Path("mine.weights").write_bytes(b"bertc C")
    opened.reload()
    opened.wait_for_function("document.getElementById('answer').innerText != 'loading'")
    assert "damaged" in opened.inner_text("#answer")
    server.shutdown()
    server.server_close()
