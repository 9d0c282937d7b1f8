"""Cards of exported folders, and models sent to a hub that answers requests here."""

import base64
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from huggingface_hub import constants

import bertc
from bertc.base.storage.paths import without_folders
from bertc.run.models.loading import read_checkpoint, read_model
from bertc.run.models.runs import import_run
from bertc.use.card import export_with_card

SPEC = (
    "layers=1 hidden=16 heads=2 ffn=32 vocab=wordpiece(64) seq=16 batch=2 steps=4 eval_every=2 "
    "save_every=2 keep=all device=cpu precision=fp32 objective=mlm holdout=20% "
)
TOKEN = "hf_" + "secret" * 5
NAME = "odd\x1b[31m\u202e`name`.txt"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("card")
    (folder / NAME).write_text("\n\n".join(f"w{n % 9} w{n % 7} w{n % 5} w{n}" for n in range(99)))
    bertc.train(f"{SPEC} data=files('{folder}/odd*.txt', language=en)", folder / "run")
    return folder / "run"


def card_of(run: Path, to: Path, pooling: str = "") -> list[str]:
    export_with_card(run, to, pooling)
    return (to / "README.md").read_text().splitlines()


def test_the_command_writes_a_card_of_the_run(run, tmp_path, command):
    assert command("export", str(run), "--to", str(tmp_path / "left")) == 0
    lines = (tmp_path / "left" / "README.md").read_text().splitlines()
    assert len(lines) <= 60
    assert all(line.isprintable() for line in lines)
    assert lines.count("---") == 2
    assert lines[0] == "---"
    for expected in (
        'language: ["en"]', "library_name: transformers", "pipeline_tag: fill-mask",
        'tags: ["bertc", "bert"]', "## Training, 4 of 4 steps",
        "    from transformers import AutoTokenizer, BertForMaskedLM",
    ):  # fmt: skip
        assert expected in lines
    assert any(line.startswith("# license: to fill in") for line in lines)
    assert any("layers=1 hidden=16" in line for line in lines)
    assert any("mlm, 4 steps of 2 x 16 tokens" in line for line in lines)
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in metrics if line["kind"] == "eval"][-1]
    assert f"It read {last['tokens']:,} tokens, padding of rows included, of:" in lines
    assert "# Encoder for fill-mask, bert layout" in lines
    (score,) = [line for line in lines if f"{last['loss_masked']:.4f}" in line]
    assert score.startswith("    mlm, masked: loss ")
    assert f"by token frequency {last['unigram_losses']['mlm_masked']:.4f}, accuracy " in score
    figures = [line.split(": ")[0] for line in lines if line.startswith("    mlm")]
    assert len({*figures}) == len(figures)


def test_scores_are_of_the_weights_that_are_exported(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    weights = tmp_path / "run" / "checkpoints" / "step-00000004" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    lines = card_of(tmp_path / "run", tmp_path / "left")
    assert "## Training, 2 of 4 steps" in lines
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    scored = {line["step"]: line["loss_masked"] for line in metrics if line["kind"] == "eval"}
    assert any(line.startswith(f"    mlm, masked: loss {scored[2]:.4f}") for line in lines)
    assert not any(f"{scored[4]:.4f}" in line for line in lines)


def test_a_run_that_begins_elsewhere_and_an_imported_one_say_so(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = card_of(run, tmp_path / "left", "mean")
    assert {"library_name: sentence-transformers", "pipeline_tag: sentence-similarity"} <= {*lines}
    import_run(tmp_path / "left", tmp_path / "imported")
    lines = card_of(tmp_path / "imported", tmp_path / "again")
    assert "Imported: what it was trained on is not known here." in lines
    assert not [line for line in lines if "It read" in line]
    spec = f"init='{run}' {SPEC} data=files('{run.parent}/odd*.txt')"
    bertc.train(spec, tmp_path / "next")
    lines = card_of(tmp_path / "next", tmp_path / "left")
    assert [line for line in lines if line.startswith('base_model: "run"')]
    export_with_card(tmp_path / "next", tmp_path / "code", code=True)
    files = [file for name in ("left", "code", "again", "imported", "next/model")
             for file in (tmp_path / name).rglob("*") if file.is_file()]  # fmt: skip
    machine = str(tmp_path.parent).encode()
    assert not [file for file in files if machine in file.read_bytes()]


def test_absolute_paths_are_shown_by_their_last_part():
    text = "files('/home/al/a b.txt', \"~/x/*.csv\") /srv/y.txt x='file:///a/c' 80/10/10 a / b"
    shown = "files('a b.txt', \"*.csv\") y.txt x='c' 80/10/10 a / b"
    assert without_folders(text) == shown
    assert without_folders(remote := "data=files('s3://a/b') init='runs/a' ../a/b") == remote


@pytest.mark.parametrize("network", ["", "positions=rotary segments=0 "])
def test_scores_of_the_next_token_fill_no_masks(network, run, tmp_path):
    settings = f"{network}{SPEC} data=files('{run.parent}/odd*.txt')"
    bertc.train(settings.replace("mlm", "mntp"), tmp_path / "run")
    exported = export_with_card(tmp_path / "run", tmp_path / "left")
    assert exported.architecture.endswith("ForMaskedLM"), "as pipelines of minimal pairs want it"
    lines = (tmp_path / "left" / "README.md").read_text().splitlines()
    assert not [line for line in lines if "pipeline_tag" in line or "fill-mask" in line]
    assert [line for line in lines if "the token after it" in line]
    tokenizer = json.loads((tmp_path / "left" / "tokenizer_config.json").read_text())
    assert tokenizer["model_max_length"] == 16


class Hub(ThreadingHTTPServer):
    """Models by name: their branches with the files of each; ``me`` may write."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.models: dict[str, dict[str, dict[str, bytes]]] = {"me/public": {"main": {}}}
        self.private: set[str] = set()
        self.blobs: dict[str, bytes] = {}
        self.requests = 0


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def handle_one(self) -> None:
        self.server.requests += 1
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, answer = self.answer(self.path.partition("?")[0].strip("/"), body)
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = handle_one

    def log_message(self, *_: object) -> None: ...

    def answer(self, path: str, body: bytes) -> tuple[int, object]:
        hub = self.server
        if path.startswith("blobs/"):
            hub.blobs[path.removeprefix("blobs/")] = body
            return 200, {}
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return 401, {"error": f"Invalid credentials {TOKEN}"}
        sent = json.loads(body) if body and "/commit/" not in path else {}
        if path == "api/validate-yaml":
            return 200, {"errors": [], "warnings": [{"message": "no licence"}]}
        if path == "api/repos/create":
            owner, name = sent["organization"], f"{sent['organization']}/{sent['name']}"
            is_new = name not in hub.models
            if owner != "others" and is_new:
                hub.models[name] = {"main": {".gitattributes": b""}}
                hub.private |= {name} if sent.get("visibility") == "private" else set()
            status = 403 if owner == "others" else 200 if is_new else 409
            return status, {"url": f"{constants.ENDPOINT}/{name}"}
        if path.endswith(".git/info/lfs/objects/batch"):
            for blob in sent["objects"]:
                href = f"http://127.0.0.1:{hub.server_port}/blobs/{blob['oid']}"
                blob["actions"] = {"upload": {"href": href}}
            return 200, sent
        return self.of_model(*path.split("/")[2:], sent=sent, lines=body.splitlines())

    def of_model(self, owner, model, verb="", branch="", *, sent, lines) -> tuple[int, object]:
        if owner in ("lost", "others"):
            return 404, {"error": "Repository not found"}
        name = f"{owner}/{model}"
        branches = self.server.models[name]
        if verb == "branch":
            branches.setdefault(branch, dict(branches["main"]))
            return 200, {}
        files = branches[branch]
        if verb == "revision":
            front = yaml.safe_load(files.get("README.md", b"---\n---").decode().split("---")[1])
            return 200, {"id": name, "private": name in self.server.private, "cardData": front}
        if verb == "tree":
            return 200, [{"type": "file", "path": f, "size": 1, "oid": "0"} for f in files]
        if verb == "preupload":
            for file in sent["files"]:
                mode = "lfs" if "safetensors" in file["path"] else "regular"
                file |= {"uploadMode": mode, "shouldIgnore": False}
            return 200, sent
        if owner == "full":
            return 507, {"error": "Private storage is full"}
        for line in map(json.loads, lines):
            value = line["value"]
            match line["key"]:
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.server.blobs[value["oid"]]
                case "deletedFile":
                    del files[value["path"]]
        return 200, {"commitUrl": f"{constants.ENDPOINT}/{name}/commit/0", "commitOid": "0"}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield server
    server.shutdown()
    server.server_close()


def test_checkpoints_are_branches_and_a_dry_run_makes_no_request(run, hub, tmp_path, call):
    to = tmp_path / "model"
    code, said, _ = call("export", str(run), "--push", "me/small", "--dry-run", "--to", str(to))
    assert (code, hub.requests) == (0, 0)
    files = {path.name: path.read_bytes() for path in to.iterdir()}
    sizes = {line.split()[-1]: line.split()[:-1] for line in said.splitlines() if line[0] == " "}
    assert sizes.keys() == files.keys()
    assert sizes["config.json"] == [str(len(files["config.json"])), "B"]
    code, said, err = call("export", str(run), "--push", "me/small", "--private")
    assert (code, err, TOKEN in said) == (0, "", False)
    assert hub.private == {"me/small"}
    main = hub.models["me/small"]["main"]
    assert main == files | {".gitattributes": b""}
    assert b'BertForMaskedLM.from_pretrained("me/small")' in main["README.md"]
    # What was written on the hub stays: the licence, other files; of an older export nothing does.
    main["README.md"] = main["README.md"].replace(b"# license: to fill", b"license: mit\n#")
    main |= {"LICENSE": b"MIT", "note.txt": b"of an older export"}
    code, said, _ = call("export", str(run), "--push", "me/small", "--revision", "step-2")
    assert (code, said.split(":")[0]) == (0, "me/small@step-2")
    branch = hub.models["me/small"]["step-2"]
    assert branch.keys() == files.keys() | {".gitattributes", "LICENSE"}
    card = branch["README.md"].decode()
    assert card.startswith('---\nlicense: "mit"\n')
    assert "## Training, 2 of 4 steps" in card
    assert 'from_pretrained("me/small", revision="step-2")' in card
    name = "encoder.embeddings.token.weight"
    (tmp_path / "two").mkdir()
    for file in branch.keys() - {"LICENSE"}:
        (tmp_path / "two" / file).write_bytes(branch[file])
    sent = read_model(tmp_path / "two")[1][name]
    assert sent.equal(read_checkpoint(run, 2, "evaluated")[1][name])
    assert not sent.equal(read_checkpoint(run, 4, "evaluated")[1][name])


@pytest.mark.parametrize(
    ("name", "code", "cause", "remedy"),
    [
        ("small", 2, "no model has such a name", "user/name or organisation/name"),
        ("datasets/me/small", 2, "no model has such a name", "data sets and spaces take no models"),
        ("me/small --revision a..b", 2, "no name of a branch", "such as v1"),
        ("me/small --revision step-3", 66, "has no checkpoint of step 3", "one of steps 2, 4"),
        ("others/small", 74, "the token may not write others/small", "write access: http"),
        ("lost/small", 74, "no model lost/small that the token may see", "check the name"),
        ("full/small", 74, "507 Private storage is full", "run the same command again"),
        ("me/public --private", 2, "on the hub already, and public", "settings"),
        ("me/small HF_TOKEN=hf_old", 74, "does not know the token", "/settings/tokens"),
        ("me/small HF_TOKEN=", 66, "there is no token", "hf auth login"),
        ("me/small offline", 74, "HF_HUB_OFFLINE is set", "unset it"),
        ("me/small unreached", 74, "cannot send to the hub at http://127.0.0.1:9", "--to FOLDER"),
    ],
)  # fmt: skip
def test_what_the_hub_refuses_is_one_message(
    run, hub, tmp_path, call, monkeypatch, name, code, cause, remedy
):
    name, _, more = name.partition(" ")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    if more.startswith("HF_TOKEN"):
        monkeypatch.setenv(*more.split("="))
    elif more == "unreached":
        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    elif more == "offline":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    options = more.split() if more.startswith("-") else []
    ended, said, err = call("export", str(run), "--push", name, *options)
    assert (ended, said) == (code, "")
    error, help = err.splitlines()
    assert error.startswith("error: ")
    assert help.startswith("help: ")
    assert cause in error
    assert remedy in help
    assert "hf_" not in err
