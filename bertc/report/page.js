// What the page does: it unpacks pictures, draws them in the colours of the reader's theme, and
// redraws them along another axis. Nothing is fetched.
"use strict";

function bytesOf(text) {
  return Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function unpacked(id) {
  const packed = new Blob([bytesOf(document.getElementById(id).textContent)]);
  return new Response(packed.stream().pipeThrough(new DecompressionStream("gzip")));
}

const themes = matchMedia("(prefers-color-scheme: dark)");

function themed(layout) {
  const style = getComputedStyle(document.documentElement);
  const [text, quiet, line] = ["--text", "--quiet", "--line"].map((name) => style.getPropertyValue(name));
  const found = {
    ...layout,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: text, size: 12, family: getComputedStyle(document.body).fontFamily },
    hoverlabel: { bgcolor: style.getPropertyValue("--raised"), bordercolor: line, font: { color: text } },
  };
  for (const name of ["xaxis", "yaxis"]) {
    found[name] = { ...layout[name], gridcolor: line, zerolinecolor: line, linecolor: line, tickfont: { color: quiet } };
  }
  found.shapes = (layout.shapes || []).map((shape) => ({ ...shape, line: { ...shape.line, color: quiet } }));
  found.annotations = (layout.annotations || []).map((each) => ({ ...each, font: { color: quiet, size: 10 } }));
  return found;
}

// A picture as plotly takes it: its traces along the chosen axis, raw or smoothed.
function asked(picture, choice) {
  const { figure, along, smooth, marks, names } = picture;
  const data = figure.data.map((trace, at) => {
    const changed = { ...trace };
    if (names) changed.text = names[at].flatMap(([name, count]) => Array(count).fill(name));
    if (along && along[choice.along]) changed.x = along[choice.along][at];
    if (smooth && smooth[at] && choice.smooth) changed.y = smooth[at];
    return changed;
  });
  const layout = structuredClone(figure.layout);
  if (along && along[choice.along]) {
    layout.xaxis = {
      ...layout.xaxis, title: { text: choice.along, standoff: 6 },
      exponentformat: choice.along.startsWith("FLOPs") ? "power" : "B",
    };
    (layout.shapes || []).forEach((shape, at) => { shape.x0 = shape.x1 = marks[choice.along][at]; });
    (layout.annotations || []).forEach((each, at) => { each.x = marks[choice.along][at]; });
    if (picture.scales && choice.log) layout.yaxis = { ...layout.yaxis, type: "log", range: null };
  }
  return [data, themed(layout)];
}

const options = {
  responsive: true, displaylogo: false,
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
};

function choiceOf(section) {
  const value = (name) => section.querySelector(`[data-control=${name}]`);
  return {
    along: value("along")?.value, smooth: value("smooth")?.checked, log: value("log")?.checked,
  };
}

let pictures = [];

function draw(plot) {
  return Plotly.react(plot, ...asked(pictures[plot.dataset.picture], choiceOf(plot.closest("section"))), options);
}

function inView(plot) {
  const box = plot.getBoundingClientRect();
  return box.bottom > 0 && box.top < innerHeight;
}

// Pictures that are still to be drawn: those in view first, then the others in their order.
const waiting = new Set();
let drawing = null;

function drawSoon(plots) {
  plots.forEach((plot) => waiting.add(plot));
  drawing ??= drawWaiting().finally(() => { drawing = null; });
  return drawing;
}

async function drawWaiting() {
  while (waiting.size) {
    const next = [...waiting].find(inView);
    if (!next) note("shown");
    const plot = next ?? waiting.values().next().value;
    waiting.delete(plot);
    await draw(plot);
    // Lets the browser show what is drawn, and scroll, before the next.
    await new Promise((go) => setTimeout(go));
  }
}

// Seconds since the page was asked for, for tests and measurements.
function note(name) {
  document.documentElement.dataset[name] ??= (performance.now() / 1000).toFixed(2);
}

// Runs a packed script. One with an address is compiled beside the page's own thread.
async function run(id) {
  const script = document.createElement("script");
  script.src = URL.createObjectURL(await unpacked(id).blob());
  const ended = new Promise((go, fail) => Object.assign(script, { onload: go, onerror: fail }));
  document.head.append(script);
  await ended;
  URL.revokeObjectURL(script.src);
}

async function drawAll() {
  const plots = [...document.querySelectorAll(".plot")];
  if (plots.length) {
    [pictures] = await Promise.all([unpacked("pictures").json(), run("plotly")]);
    for (const control of document.querySelectorAll("[data-control]")) {
      control.addEventListener("change", () => drawSoon(control.closest("section").querySelectorAll(".plot")));
    }
    themes.addEventListener("change", () => drawSoon(plots));
    addEventListener("beforeprint", () => { waiting.forEach(draw); waiting.clear(); });
    await drawSoon(plots);
  }
  note("shown");
  note("seconds");
  document.documentElement.dataset.drawn = plots.length;
}

drawAll().catch((error) => {
  document.getElementById("failed").hidden = false;
  console.error(error);
});
