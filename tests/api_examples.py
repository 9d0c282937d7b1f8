"""Examples of the public names, shown in docs/python.md; they run in order, in one folder."""

# ruff: noqa: E402
# %% Specs
from pathlib import Path

import bertc

spec = "layers=1 hidden=32 heads=2 seq=16 batch=4 steps=2 data='text.txt' vocab=wordpiece(64)"
program = bertc.resolve(spec)  # raises SpecError
print(bertc.show(spec), {weight.name: weight.shape for weight in bertc.model_weights(program)})
(mistake,) = bertc.findings("hidden=64 heads=5").found  # no SpecError
print([remedy.title for remedy in bertc.remedies(mistake, "hidden=64 heads=5")])
print([point.encoder.hidden for point in bertc.points("hidden={64, 128}")])
written, _ = bertc.programs("hidden={64, 128}")  # what is written, nothing derived
print(bertc.formatted(written.with_values(layers=3)))
print(bertc.spec_text("albert-base"), list(bertc.shipped_specs()))
adamw = bertc.schema()["optimizer"].values.kinds["adamw"]
print(adamw.meaning, {name: argument.default for name, argument in adamw.arguments.items()})
print(f"data = files({bertc.quoted('my text.txt')})")
rates = bertc.space("optimizer=adamw({1e-5..1e-3:log})")
print(rates.point(lambda dimension: dimension.low).program)

# %% Costs
cost = bertc.estimate("bert-base", "h100", devices=8)
print(cost, cost.parameters.total, cost.memory.peak_bytes, cost.time.seconds_total)
print(bertc.units.flops_text(cost.flops.train_total), bertc.step_flops(program, {}))
print(bertc.device_named("h100").source)
print(bertc.most_steps(lambda steps: 3.0 * steps, 100.0))  # 33

# %% Training
print(bertc.survey("text.txt").kind)
model = bertc.build(spec)  # a torch module with its first weights
report = bertc.train(spec, "runs/first")
stepper = bertc.Stepper(program)
with stepper.open() as step, stepper.turn():
    step()

# %% Runs
bertc.train(spec, "runs/second", ["seed=2"])
folder, second = bertc.RunFolder(Path("runs/first")), bertc.RunFolder(Path("runs/second"))
resolved, lines = folder.read_resolved(), folder.read_metrics()
print(bertc.settings_texts(resolved), bertc.changed(resolved, second.read_resolved()))
print(bertc.weights_digest(folder.path) == bertc.weights_digest(second.path))
for line in lines:
    print(line["kind"], line["step"], bertc.shown_figures(line["losses"]), line["losses"])
for seen in folder.evaluations(resolved, lines):
    print({bertc.titled(loss): value for (loss,), value in seen.values.items()})

# %% Trained models
trained = bertc.load("runs/first")
print(trained.fill("The hen is [MASK].").summary())
vectors = trained.embed(["a hen", "a duck"])
hidden = trained.encode(**trained.tokenizer(["a hen"]))  # (batch, seq, hidden)
maps = trained.attention("a hen").maps  # (heads, tokens, tokens) of each layer
outputs = bertc.graph_of(trained).outputs  # as other runtimes compute them
print(bertc.evaluate_run(folder.path, bertc.Manner(examples=8)).evaluation)
complete, without = bertc.evaluate_heads(folder.path)

# %% Tables and errors
print(bertc.Table(("head", "change"), [("0.1", 0.25)], units=(str, "{:.1%}".format)))
print(bertc.escaped("\x1b[31m"))
try:
    bertc.estimate("no-such-spec")
except bertc.BertcError as error:
    print(error.message, error.help)
