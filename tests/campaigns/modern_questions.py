"""Questions about today's encoders: what each of their ideas is worth at equal FLOPs."""

from tests.campaigns.question import Question, arms

SIZES = "extends quickstart-bert layers=4 hidden=128 heads=2 batch=16 initializer=normal(0.088)"
"""BERT's quickstart, narrower, and with a layer more: two of the four see windows."""
FLOPS = 4e12
RATE = "1.5e-3, warmup=15%, betas=[0.9, 0.98]"
BLOCKS = {
    "rotary": "positions=rotary",
    "geglu": "activation=geglu ffn=344",  # two thirds of the width: equal weights
    "pre-norm": "norm=pre(1e-5)",
    "windows": "attention=local(32, global_every=3)",  # to rows of 128 as 128 to 512
}
MODERN = (
    "positions=rotary activation=geglu(bias=false) ffn=344 head=transform(bias=false) "
    "norm=pre(1e-5, bias=false, embeddings=true, first=false) "
    "attention=local(32, global_every=3, bias=false)"
)


def learned(
    network: str = "",
    optimizer: str = "adamw",
    schedule: str = "polynomial",
    objective: str = "mlm",
) -> str:
    """A spec of BERT's training but for what is given."""
    return f"{network} objective={objective} optimizer={optimizer}({RATE}, schedule={schedule})"


def questions() -> tuple[Question, ...]:
    """The arrangements side by side: held-out loss of 15% of the tokens."""
    masks = "mlm(30%, eval_p=15%)"
    each = {
        "bert": learned(),
        **{name: learned(network) for name, network in BLOCKS.items()},
        "stable-adamw": learned(optimizer="stable-adamw"),
        "wsd": learned(schedule="wsd"),
        "mask-30": learned(objective=masks),
        "modernbert": learned(MODERN, "stable-adamw", "wsd", masks),
    }
    return (
        Question(
            "arrangements", "BERT's arrangement, each change alone, and ModernBERT's",
            arms(SIZES, each), flops=FLOPS,
        ),
    )  # fmt: skip
