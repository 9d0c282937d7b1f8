"""Patience: a stage of tasks ends early, with the weights of its best evaluation."""

from typing import Annotated

from pydantic import Field

from bertc.ir.methods.method import Held, Method
from bertc.ir.rules import Rule, Rules


class Patience(Method):
    """The end of a stage after ``evaluations`` without a better score, with its best weights."""

    evaluations: Annotated[int, Field(ge=1)]

    setting = "patience"
    holds = Held("best.safetensors", on_devices=False)
    of_tasks = True
    why_final = "it ends with the weights of its best evaluation (patience)"
    rules = Rules(text=(
        Rule("E275", "patience", lambda s: True,
             "patience needs the scores of a task, but the objective has none",
             also=("objective", "the objective is set here"), help="patience=0"),
    ))  # fmt: skip
