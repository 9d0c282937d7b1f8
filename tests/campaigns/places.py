"""Every place of a class of the user's own, in every way that a run can be.

    nice python -m tests.campaigns.places [--only TEXT]

Sharing, uneven layers and packed rows as ``pairs.py`` does. Compiled steps, and two processes, have
the losses of others; killed runs are the same to the bit, exports in transformers. Exits 1 if not.
"""

import os
import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from shutil import rmtree
from socket import socket

import pytest
import torch

import bertc
from bertc.api import points
from bertc.base.diagnostics import BertcError
from bertc.run.train.loop import train
from bertc.use.card import export_with_card
from tests.campaigns.ideas import AXES, written
from tests.campaigns.options import read_options
from tests.campaigns.pairs import Outcome, material, outcome
from tests.run.conftest import after_updates, lines, same_run
from tests.run.test_ranks import free_port, kill, member

PAIRED = "share=all", "heads=[2,4,2,4] head_dim=8", "ffn=[64,32,64,32]", "seq=64 pack=true"
STEPS = "steps=4 save_every=2 dropout=0"
WAYS = "compile=on", "strategy=ddp", "strategy=fsdp", "killed", "exported"
LOADED = """import sys, torch, transformers
model = transformers.AutoModel.from_pretrained("exported", trust_remote_code=True).eval()
ids, mask, expected = torch.load("expected.pt")
states = model(input_ids=ids, attention_mask=mask)[0]
assert "bertc" not in sys.modules
torch.testing.assert_close(states[mask > 0], expected[mask > 0], atol=1e-5, rtol=1e-4)"""
PROCESSES = get_context("forkserver")


def die(rank: int) -> None:
    after_updates(pytest.MonkeyPatch(), lambda _, at: at == 3 and kill())


def tried(way: str, place: str, plain: Path) -> Outcome:
    """Hold that a run of this way is, or computes, what the plain one does."""
    out, options = plain.with_name(way), {"cache": plain.with_name("cache")}
    if way in PAIRED:
        return outcome((way, place), out, options["cache"])
    (resolved,) = points(written(place, STEPS, *[way] * ("=" in way)))
    if way == "compile=on":
        train(resolved, out, quiet=True, **options)
    elif way == "exported":
        export_with_card(plain, out, code=True)
        ids, mask = torch.arange(6, 24).view(2, 9), torch.ones(2, 9).tril(6).long()
        torch.save((ids, mask, bertc.load(plain).encode(ids, attention_mask=mask)), "expected.pt")
        subprocess.run([sys.executable, "-c", LOADED], check=True)
        return Outcome((place, way))
    else:
        harm, codes = (die, [-9]) if way == "killed" else (None, [0, 0])
        with socket() as held:
            said = PROCESSES.SimpleQueue()
            job = len(codes), [free_port(held)], [(resolved, out, options)], harm, said
        members = [PROCESSES.Process(target=member, args=(n, *job)) for n in range(len(codes))]
        _ = [each.start() for each in members], [each.join() for each in members]
        assert [each.exitcode for each in members] == codes
    if way == "killed":
        train(resolved, out, resume=True, quiet=True, **options)
        same_run(plain, out)
    one, other = ([line["loss"] for line in lines(run)] for run in (plain, out))
    assert one == pytest.approx(other, rel=1e-4), other
    return Outcome((place, way))


def main() -> int:
    options, wrong = read_options(__doc__, only=""), 0
    PROCESSES.set_forkserver_preload(["tests.forked"])
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"BERTC_OWN": "yes", "HF_MODULES_CACHE": folder, "PYTHONPATH": os.getcwd()}
        material(place := Path(folder))
        for value in (value for value in AXES["own"] if options.only in value):
            (plain,) = points(written(value, STEPS))
            train(plain, place / "plain", quiet=True, cache=place / "cache")
            for way in (*PAIRED, *WAYS):
                try:
                    found = tried(way, value, place / "plain")
                except BertcError as error:
                    found = Outcome((value, way), (error.message, error.help))
                except Exception as error:  # whatever it is: the other ways go on
                    found = Outcome((value, way), (), (repr(error),))
                wrong += len(found.wrong)
                print(found, flush=True)
                rmtree(place / way, ignore_errors=True)
            rmtree(place / "plain")
    return wrong


if __name__ == "__main__":
    sys.exit(main() > 0)
