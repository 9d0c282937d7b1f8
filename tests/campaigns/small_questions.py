"""Questions about small models: teachers, students, pruned networks."""

from dataclasses import dataclass
from pathlib import Path

from tests.campaigns.question import ONCE, Arm, Question, arms

FOLDERS = {"sst2": "SST-2", "mrpc": "MRPC", "rte": "RTE"}
RATE = "optimizer=adamw(1e-4, warmup=10%, bias_correction=true)"


@dataclass(frozen=True)
class Places:
    """Folders of data and of a pretrained encoder, and where runs are."""

    data: Path
    encoder: Path
    runs: Path

    def task(self, name: str, examples: int) -> str:
        """A task of GLUE with so many training examples."""
        return f"glue({name}, '{self.data}/glue/{FOLDERS[name]}', examples={examples})"

    def teacher(self, name: str) -> Path:
        """The encoder fine-tuned on a task."""
        return self.runs / f"teacher-{name}" / "tuned"


EXAMPLES = {"sst2": 16000, "mrpc": 3668, "rte": 2490}
BATCH = {"sst2": 32, "mrpc": 16, "rte": 16}  # of students; texts of SST-2 are short
STEPS = {"sst2": 250, "mrpc": 230, "rte": 234}


def teacher(places: Places, name: str) -> Arm:
    """The encoder fine-tuned on a task: half an epoch of 16,000, or two to three."""
    task = places.task(name, EXAMPLES[name])
    common = f"init='{places.encoder}' task={task} freeze=embeddings seq=128 batch=32 {RATE}"
    return Arm("tuned", f"{ONCE} {common} steps={STEPS[name]}", kept=True)


def students(places: Places, name: str) -> Question:
    """Three layers of the encoder taught by labels, by logits, by [CLS] states as well."""
    task = places.task(name, EXAMPLES[name])
    common = (
        f"layers=3 init=layers('{places.encoder}', first) teacher='{places.teacher(name)}' "
        f"freeze=embeddings seq=128 batch={BATCH[name]} steps=300 "
        "optimizer=adamw(2e-4, warmup=10%, bias_correction=true)"
    )
    logits = f"0.5*{task} + 0.5*kd(logits, T=5)"
    each = {
        "labels": f"objective={task}",
        "logits": f"objective={logits}",
        "patient": f"objective={logits} + 100*kd(cls, layers=skip, normalize=true)",
    }
    return Question(
        f"students-{name}", f"Does a student of three layers gain from its teacher on {name}?",
        arms(common, each),
    )  # fmt: skip


def bilstm(places: Places) -> Question:
    """A BiLSTM taught by labels or by logits (Tang et al. 2019)."""
    task = places.task("sst2", EXAMPLES["sst2"])
    each = {"hard": f"objective={task}", "soft": f"objective=0*{task} + kd(logits, loss=mse)"}
    return Question(
        "bilstm", "Do soft targets teach a BiLSTM more than hard ones?",
        arms(f"{_bilstm(places)} steps=400", each),
    )  # fmt: skip


def _bilstm(places: Places) -> str:
    (vectors,) = sorted((places.data / "glove").glob("*.txt.gz")) or [Path("vectors.txt")]
    return (
        f"body=bilstm(150) embedding=50 init=vectors('{vectors}') "
        f"teacher='{places.teacher('sst2')}' seq=128 batch=50 optimizer=adam(1e-3)"
    )


def augmentation(places: Places) -> Question:
    """Few examples with and without changed copies, taught by logits."""
    task = places.task("sst2", 2000)
    common = f"{_bilstm(places)} objective=0*{task} + kd(logits, loss=mse) steps=400"
    copies = "augment=4*edit(mask=10%, ngram=25%)"
    return Question(
        "augmentation", "Do copies of 2,000 examples help at equal steps?",
        arms(common, {"none": "", "edit": copies}),
    )  # fmt: skip


def _pruned(places: Places, steps: int) -> str:
    task = places.task("sst2", EXAMPLES["sst2"])
    return (
        f"init='{places.teacher('sst2')}' task={task} freeze=embeddings seq=128 batch=16 "
        f"optimizer=adamw(3e-5, warmup=10%, bias_correction=true) steps={steps}"
    )


def heads(places: Places) -> Question:
    """Heads removed by three scores, 20 steps of retraining after it."""
    each = {
        f"{by}-{share}": f"prune=heads({share}%, by={by})"
        for share in (20, 40, 60)
        for by in ("gradient", "magnitude", "random")
    }
    return Question(
        "heads", "What does removing heads cost on sst2?",
        arms(_pruned(places, 20), {"nothing": "", **each}),
    )  # fmt: skip


def neurons(places: Places) -> Question:
    """Neurons of feed-forward parts removed by two scores."""
    each = {
        f"{by}-{share}": f"prune=neurons({share}%, by={by})"
        for share in (25, 50, 75)
        for by in ("gradient", "magnitude")
    }
    return Question(
        "neurons", "What does removing neurons cost on sst2?", arms(_pruned(places, 20), each)
    )


def gradual(places: Places) -> Question:
    """The same share at once or in steps, with the same steps of training; and what it saves."""
    each = {
        "heads-at-once": "prune=heads(40%)",
        "heads-in-steps": "prune=heads(40%, every=10%)",
        "neurons-at-once": "prune=neurons(50%)",
        "neurons-in-steps": "prune=neurons(50%, every=12.5%)",
    }
    made = arms(_pruned(places, 60), each)
    kept = tuple(Arm(arm.name, arm.spec, kept=True) for arm in made)
    timed = [places.teacher("sst2")]
    timed += [places.runs / "gradual" / name / "seed=1" for name in list(each)[1::2]]
    return Question(
        "gradual", "At once or in steps, and how fast is the rest?", kept,
        timed=tuple(map(str, timed)),
    )  # fmt: skip


def pretrained() -> Question:
    """The teacher of ``distilbert``: quickstart-bert, shorter."""
    spec = f"{ONCE} extends quickstart-bert steps=400"
    return Question(
        "quickstart", "A masked language model of docstrings", (Arm("mlm", spec, kept=True),),
        seeds=(1,),
    )  # fmt: skip


def distilbert(places: Places) -> Question:
    """DistilBERT's objective and start, and each loss left out (its own ablation)."""
    losses = {
        "logits": "5*kd(logits, T=2)",
        "mlm": "2*mlm",
        "cosine": "kd(hidden, loss=cosine, layers=last)",
    }
    start = "init=layers(teacher, [0, 2])"

    def objective(without: str = "") -> str:
        # All are compared by the loss of masked tokens.
        left = {name: text for name, text in losses.items() if name != without}
        return "objective=" + " + ".join(({"mlm": "0*mlm"} | left).values())

    each = {
        "all": f"{start} {objective()}",
        "random start": objective(),
        **{f"no {name}": f"{start} {objective(name)}" for name in losses},
    }
    common = (
        f"layers=2 hidden=256 heads=4 teacher='{places.runs / 'quickstart' / 'mlm'}' seq=128 "
        "format=blocks batch=16 dropout=0 optimizer=adamw(5e-4, warmup=10%) steps=100"
    )
    return Question(
        "distilbert", "What are start and losses of DistilBERT worth (held-out loss)?",
        arms(common, each),
    )  # fmt: skip


def questions(places: Places) -> tuple[Question, ...]:
    """Every question; those that later ones need come first."""
    sst2, mrpc, rte = (
        Question(f"teacher-{name}", f"The encoder tuned on {name}", (teacher(places, name),), (1,))
        for name in FOLDERS
    )
    return (
        sst2, students(places, "sst2"), heads(places), bilstm(places), gradual(places),
        augmentation(places), neurons(places), pretrained(), distilbert(places),
        mrpc, students(places, "mrpc"), rte, students(places, "rte"),
    )  # fmt: skip
