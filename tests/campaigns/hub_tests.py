"""transformers' common tests of models, on folders with a program's own classes.

    nice python -m tests.campaigns.hub_tests --tests DIR [--only TEXT]

DIR is the folder ``tests`` of transformers' source, of the installed version. Eight tiny programs,
four of which no layout of transformers can say, are exported and tested in a process each, without
generation. Its tests of pipelines need models of the hub: here tasks run on the folders, two texts
in a batch against one at a time. Prints a line each: tests that passed, failed, and do not apply,
and differences of tasks; then what failed and why. Exits 1 if any failed.
"""

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path

from bertc.api import resolve
from bertc.use.source.code_folder import export_code
from tests.campaigns.options import read_options
from tests.hub.programs import Wordless, tensors

PROGRAMS = {
    "shared attention": "objective=mlm heads=4 share=attention E=16",
    "widths by layer": "objective=mlm heads=[3,2] head_dim=8 ffn=[40,24]",
    "after": "objective=mlm heads=4 norm=pre(after_attention=true) segments=0 positions=rotary",
    "local": "objective=mlm heads=4 attention=local(4,global_every=2) positions=alibi segments=0",
    "bert": "objective=mlm+nsp heads=4 pooler=true",
    "modernbert": "objective=mlm heads=4 norm=pre activation=geglu positions=rotary segments=0",
    "llama": "objective=clm heads=4 norm=pre(function=rms) activation=swiglu positions=rotary",
    "deberta": "objective=mlm heads=4 attention=disentangled(8,16) positions=none segments=0",
}
TESTER = """
import sys, types, unittest

tests = types.ModuleType("tests")
tests.__path__ = [{tests!r}]
sys.modules["tests"] = tests
for name, mixin in {{
    "exporters.test_export": "ExportTesterMixin",
    "generation.test_utils": "GenerationTesterMixin",
}}.items():
    package, _ = name.split(".")
    sys.modules[f"tests.{{package}}"] = types.ModuleType(package)
    module = sys.modules[f"tests.{{name}}"] = types.ModuleType(name)
    setattr(module, mixin, type(mixin, (), {{}}))
sys.path.insert(0, {folder!r})

import torch
from tests import test_modeling_common as common
from transformers import AutoConfig, AutoModel
from transformers.models.auto import modeling_auto

import {file} as modeling

CONFIG = next(kind for name, kind in vars(modeling).items() if name.endswith("Config")
              and kind.__module__ == "{file}")
CLASSES = [kind for name, kind in vars(modeling).items() if isinstance(kind, type)
           and kind.__module__ == "{file}" and hasattr(kind, "config_class")
           and (name.endswith("Model") or "For" in name) and "PreTrained" not in name]
AutoConfig.register(CONFIG.model_type, CONFIG)
AutoModel.register(CONFIG, CLASSES[0])
TASKS = {{"MaskedLM": "MASKED_LM", "CausalLM": "CAUSAL_LM", "MultipleChoice": "MULTIPLE_CHOICE",
         "SequenceClassification": "SEQUENCE_CLASSIFICATION",
         "TokenClassification": "TOKEN_CLASSIFICATION",
         "QuestionAnswering": "QUESTION_ANSWERING"}}
for kind in CLASSES[1:]:
    task = TASKS[kind.__name__.split("For")[1]]
    names = getattr(modeling_auto, f"MODEL_FOR_{{task}}_MAPPING_NAMES")
    names[CONFIG.model_type] = kind.__name__
    getattr(modeling_auto, f"MODEL_FOR_{{task}}_MAPPING").register(CONFIG, kind)
modeling_auto.MODEL_MAPPING_NAMES[CONFIG.model_type] = CLASSES[0].__name__


class Tester:
    def __init__(self, parent):
        config = CONFIG()
        self.batch_size, self.seq_length, self.num_choices = 3, 7, 4
        self.hidden_size, self.num_hidden_layers = config.hidden_size, config.num_hidden_layers
        self.num_attention_heads, self.is_training = config.num_attention_heads, True

    def get_config(self):
        return CONFIG(classifier_dropout=0.1, pad_token_id=0)

    def prepare_config_and_inputs_for_common(self):
        ids = torch.randint(5, 99, (self.batch_size, self.seq_length))
        mask = torch.ones_like(ids)
        return self.get_config(), {{"input_ids": ids, "attention_mask": mask}}


class Test(common.ModelTesterMixin, unittest.TestCase):
    all_model_classes = tuple(CLASSES)

    def setUp(self):
        self.model_tester = Tester(self)
"""
PIPELINES = """
import json, sys

sys.modules["bertc"] = None  # it cannot be imported
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoConfig, PreTrainedTokenizerFast, pipeline

special = {f"{x}_token": f"[{x.upper()}]" for x in ("pad", "unk", "cls", "sep", "mask")}
words = [*special.values(), *(f"w{n}" for n in range(94))]
tokens = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, "[UNK]"))
tokens.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokens.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
PreTrainedTokenizerFast(tokenizer_object=tokens, **special).save_pretrained("model")
TEXTS = ["w1 w2 [MASK] w3 w4 w5", "w6 [MASK]"]
LABELS = {"candidate_labels": ["w7", "w8 w9"], "hypothesis_template": "w5 {}"}
TASKS = {"fill-mask": ("MaskedLM", {}), "text-classification": ("SequenceClassification", {}),
         "token-classification": ("TokenClassification", {}), "feature-extraction": ("", {}),
         "zero-shot-classification": ("SequenceClassification", LABELS)}


def numbers(made):
    if isinstance(made, dict):
        made = [x for key, x in sorted(made.items()) if key != "index" and not isinstance(x, str)]
    made = [] if isinstance(made, str) else made
    return [x for part in made for x in numbers(part)] if isinstance(made, list) else [float(made)]


results = {}
served = AutoConfig.from_pretrained("model", trust_remote_code=True).auto_map
for task, (kind, settings) in TASKS.items():
    for side in ("right", "left") if not kind or f"AutoModelFor{kind}" in served else ():
        run = pipeline(task, model="model", trust_remote_code=True, device="cpu")
        run.tokenizer.padding_side = side
        alone = [numbers(run(text, **settings)) for text in TEXTS]
        both = [numbers(made) for made in run(TEXTS, batch_size=2, **settings)]
        ends = [slice(-len(one), None) if side == "left" else slice(len(one)) for one in alone]
        results[f"{task}, {side}"] = max(abs(x - y) for one, other, end in zip(alone, both, ends)
                                         for x, y in zip(one, other[end], strict=True))
print(json.dumps(results))
"""


def main() -> None:
    options = read_options(__doc__, tests=Path, only="")
    wrong: dict[tuple[str, str], list[str]] = {}
    print(f"{'program':20} passed failed not applicable")
    for name, settings in PROGRAMS.items():
        if options.only in name:
            with tempfile.TemporaryDirectory() as folder:
                results = outcomes(settings, options.tests.resolve(), Path(folder))
                tasks = differences(Path(folder))
            counts, marks = Counter(results.values()), ("passed", "skipped")
            failed = {test: why for test, why in results.items() if why not in marks}
            row = f"{counts['passed']:6} {len(failed):6} {counts['skipped']:14}"
            print(f"{name:20} {row}", flush=True)
            for task, apart in tasks.items():
                print(f"    {task:32} {apart:.1e}", flush=True)
                if task.endswith("right") and not apart < 1e-5:
                    failed[task] = f"a batch differs by {apart:.1e}"
            for test, why in failed.items():
                wrong.setdefault((test, why), []).append(name)
    for (test, why), names in wrong.items():
        print(f"{test} ({', '.join(names)}): {why}")
    sys.exit(bool(wrong))


def outcomes(settings: str, tests: Path, folder: Path) -> dict[str, str]:
    """What became of each test: ``passed``, ``skipped``, or why it failed."""
    resolved = resolve(f"layers=2 hidden=32 vocab=wordpiece(99) seq=32 steps=1 {settings}")
    export_code(resolved, tensors(resolved), Wordless(0), folder / "model")
    (file,) = (folder / "model").glob("modeling_*.py")
    text = TESTER.format(tests=str(tests), folder=str(folder / "model"), file=file.stem)
    (folder / "test_folder.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder)]
    command += ["-p", "no:cacheprovider", "--junitxml", "results.xml", "test_folder.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not (folder / "results.xml").exists():
        raise RuntimeError(done.stdout + done.stderr)
    results: dict[str, str] = {}
    for case in xml.parse(folder / "results.xml").getroot().iter("testcase"):
        name, marks = case.get("name", "").split(" ")[0], {mark.tag: mark for mark in case}
        wrong = marks.get("failure", marks.get("error"))
        outcome = "skipped" if "skipped" in marks else "passed"
        if wrong is not None:
            outcome = " ".join(wrong.get("message", "").split())[:200]
        # A test with parts is several cases: it fails with any, and is skipped with all.
        if results.get(name, "skipped") == "skipped" or wrong is not None:
            results[name] = outcome
    return results


def differences(folder: Path) -> dict[str, float]:
    """The largest difference of results of texts in a batch from those alone, by task and side."""
    shown = subprocess.check_output([sys.executable, "-c", PIPELINES], cwd=folder, text=True)
    return dict(json.loads(shown.splitlines()[-1]))


if __name__ == "__main__":
    main()
