"""Examples of the public names, shown in docs/python.md; they run in order, in one folder."""

# ruff: noqa: E402
# %% Specs
import bertc

spec = bertc.Spec(
    "extends bert-tiny", data="text.txt", seq=16, batch=4, steps=2, vocab=bertc.wordpiece(64)
)
spec = spec.with_(objective=bertc.mlm(p=0.3) + 2 * bertc.sop(), lr=1e-3)
print(spec, spec.check(), spec.estimate("h100"), sep="\n")
print(bertc.show(spec.text))
report = spec.train("runs/first")
several = [one.train(f"runs/{n}") for n, one in enumerate(spec.grid(seed=[1, 2]))]

# %% Trained models
run = bertc.open("runs/first")  # a run, an exported folder, or a Hugging Face folder
print(run.fill("The hen is [MASK].").summary())
print(run.metrics[-1]["loss"], run.metrics.frame, run.evaluate(examples=8))
vectors, states_bsh = run.embed(["a hen", "a duck"]), run.encode(["a hen"])
maps = run.model.attention("a hen").maps  # (heads, tokens, tokens) of each layer
run.export("exported")

# %% Functions
text = "layers=1 hidden=32 heads=2 seq=16 batch=4 steps=2 data='text.txt' vocab=wordpiece(64)"
program = bertc.resolve(text)  # raises SpecError
cost = bertc.estimate("bert-base", "h100", devices=8)
print(cost, cost.parameters.total, cost.memory.peak_bytes, cost.time.seconds_total)
model = bertc.build(text)  # a torch module with its first weights
report = bertc.train(text, "runs/second", ["seed=2"])
trained = bertc.load("runs/second")
hidden = trained.encode(**trained.tokenizer(["a hen"]))  # (batch, seq, hidden)
try:
    bertc.estimate("no-such-spec")
except bertc.BertcError as error:
    print(error.message, error.help)

# %% Languages and programs
from bertc import lab_api

print({weight.name: weight.shape for weight in lab_api.model_weights(program)})
(mistake,) = lab_api.findings("hidden=64 heads=5").found  # no SpecError
print([remedy.title for remedy in lab_api.remedies(mistake, "hidden=64 heads=5")])
print([point.encoder.hidden for point in lab_api.points("hidden={64, 128}")])
written, _ = lab_api.programs("hidden={64, 128}")  # what is written, nothing derived
print(lab_api.formatted(written.with_values(layers=3)))
print(lab_api.spec_text("albert-base"), list(lab_api.shipped_specs()))
adamw = lab_api.schema()["optimizer"].values.kinds["adamw"]
print(adamw.meaning, {name: argument.default for name, argument in adamw.arguments.items()})
print(f"data = files({lab_api.quote('my text.txt')})")
rates = lab_api.space("optimizer=adamw({1e-5..1e-3:log})")
print(rates.point(lambda dimension: dimension.low).program)

# %% Costs
print(lab_api.units.flops_text(cost.flops.train_total), lab_api.step_flops(program, {}))
print(lab_api.device_named("h100").source)
print(lab_api.most_steps(lambda steps: 3.0 * steps, 100.0))  # 33

# %% Steps and text
print(lab_api.survey("text.txt").kind)
stepper = lab_api.Stepper(program)
with stepper.open() as step, stepper.turn():
    step()

# %% Runs
from functools import partial
from pathlib import Path

folder, second = lab_api.RunFolder(Path("runs/0")), lab_api.RunFolder(Path("runs/1"))
resolved, lines = folder.read_resolved(), folder.read_metrics()
print(lab_api.settings_texts(resolved), lab_api.changed(resolved, second.read_resolved()))
print(lab_api.weights_digest(folder.path) == lab_api.weights_digest(second.path))
weights, notes = lab_api.divide_by_temperatures(folder.path, resolved, trained.state_dict())
for task in resolved.stages[-1].tasks:
    print(task.title, lab_api.fit_of_head(folder.path, trained, task.title).temperature)
for line in lines:
    print(line["kind"], line["step"], lab_api.shown_figures(line["losses"]), line["losses"])
for seen in folder.evaluations(resolved, lines):
    print({lab_api.loss_title(loss): value for (loss,), value in seen.values.items()})

# %% Networks
outputs = lab_api.graph_of(trained).outputs  # as other runtimes compute them
print(lab_api.evaluate_run(folder.path, lab_api.Manner(examples=8)).evaluation)
ranked_by = partial(lab_api.mean_score, resolved.stages[-1])  # of evaluations of tasks
own_code = partial(lab_api.require_permission, "own.py:Body")  # of a source, without --own

# %% Tables
print(lab_api.Table(("head", "change"), [("0.1", 0.25)], units=(str, "{:.1%}".format)))
print(lab_api.escaped("\x1b[31m"))
print(lab_api.several(3, "run"))
