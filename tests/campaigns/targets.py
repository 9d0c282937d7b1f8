"""What is damaged: folders of the material, their files, and the commands that read them."""

from dataclasses import dataclass

from tests.campaigns import material


@dataclass(frozen=True)
class Target:
    """A folder of the material, the files of it to damage, and the commands that read them."""

    name: str
    folders: tuple[str, ...]
    files: str
    commands: dict[str, list[str]]


_INIT = material.TUNED
_SET = f"{material.NETWORK} vocab=wordpiece(150) data=hf('{{}}') device=cpu"


def _table(ending: str) -> str:
    task = material.TASK.replace(".tsv", ending)
    return f"init='hf' {task} seq=32 batch=4 steps=4 device=cpu"


TARGETS = (
    Target(
        "run",
        ("half",),
        "half/**/*",
        {
            "resume": ["train", material.TEXT, "--out", "half", "--resume"],
            "eval": ["eval", "half"],
            "fill": ["fill", "half", "the [MASK] barn"],
            "results": ["runs", "--results", "half"],
            "export": ["export", "half", "--to", "out"],
        },
    ),
    Target(
        "finished run",
        ("done",),
        "done/model/*",
        {
            "resume": ["train", material.TEXT, "--out", "done", "--resume"],
            "init": ["train", _INIT.replace("'hf'", "'done'"), "--out", "out", "--dry-run"],
        },
    ),
    Target(
        "tuned run",
        ("task",),
        "task/*",
        {
            "predict": ["predict", "task", "dev.tsv"],
            "eval": ["eval", "task"],
        },
    ),
    Target(
        "model folder",
        ("hf",),
        "hf/*",
        {
            "import": ["import", "hf", "--out", "out"],
            "fill": ["fill", "hf", "the [MASK] barn"],
            "check": ["check", _INIT],
            "estimate": ["estimate", _INIT],
            "init": ["train", _INIT, "--out", "out", "--dry-run"],
        },
    ),
    Target(
        "run with a teacher",
        ("taught", "hf"),
        "taught/*",
        {"resume": ["train", material.TAUGHT, "--out", "taught", "--resume"]},
    ),
    Target(
        "teacher",
        ("taught", "hf"),
        "hf/*",
        {
            "resume": ["train", material.TAUGHT, "--out", "taught", "--resume"],
            "check": ["check", material.TAUGHT],
        },
    ),
    Target(
        "ONNX folder",
        ("onnx",),
        "onnx/*",
        {
            "import": ["import", "onnx", "--out", "out"],
            "predict": ["predict", "onnx", "dev.tsv"],
            "export again": ["export", "onnx", "--onnx", "out"],
        },
    ),
    Target(
        "cache",
        ("cache",),
        "cache/**/*",
        {"train": ["train", material.TEXT, "--out", "out", "--dry-run"]},
    ),
    Target(
        "text",
        (),
        "text.txt",
        {
            "check": ["check", material.TEXT],
            "train": ["train", material.TEXT, "--out", "out", "--dry-run"],
        },
    ),
    *(
        Target(
            f"data set ({name})",
            (name,),
            f"{name}/**/*",
            {
                "check": ["check", _SET.format(name)],
                "train": ["train", _SET.format(name), "--out", "out", "--dry-run"],
            },
        )
        for name in ("saved", "parquet")
    ),
    *(
        Target(
            f"table ({ending})",
            ("hf", "task"),
            f"train{ending}",
            {
                "check": ["check", _table(ending)],
                "train": ["train", _table(ending), "--out", "out", "--dry-run"],
                "predict": ["predict", "task", f"train{ending}"],
            },
        )
        for ending in (".tsv", ".parquet")
    ),
)
