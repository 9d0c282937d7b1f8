"""Models sent to the hub, of which a server here answers the requests that are made."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from huggingface_hub import constants

import bertc
from bertc.run.models.loading import read_checkpoint, read_model

TOKEN = "hf_" + "secret" * 5
SPEC = (
    "layers=1 hidden=16 heads=2 ffn=32 vocab=wordpiece(64) seq=16 batch=2 steps=4 save_every=2 "
    "keep=all device=cpu precision=fp32 objective=mlm"
)


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


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("push")
    (folder / "text.txt").write_text("\n\n".join(f"w{n % 9} w{n % 7} w{n % 5}" for n in range(99)))
    bertc.train(f"{SPEC} data='{folder}/text.txt'", folder / "run")
    return folder / "run"


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
