// What the page does: it unpacks pictures, draws them in the colours of the reader's theme, and
// redraws them along another axis. Nothing is fetched.
"use strict";

async function unpacked(id) {
  const packed = await fetch(`data:;base64,${document.getElementById(id).textContent}`);
  return new Response(packed.body.pipeThrough(new DecompressionStream("gzip")));
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
  const { figure, along, smooth, marks } = picture;
  const data = figure.data.map((trace, at) => {
    const changed = { ...trace };
    if (along && along[choice.along]) changed.x = along[choice.along][at];
    if (smooth && smooth[at] && choice.smooth) changed.y = smooth[at];
    return changed;
  });
  const layout = structuredClone(figure.layout);
  if (along && along[choice.along]) {
    layout.xaxis = { ...layout.xaxis, title: { text: choice.along, standoff: 6 } };
    (layout.shapes || []).forEach((shape, at) => { shape.x0 = shape.x1 = marks[choice.along][at]; });
    (layout.annotations || []).forEach((each, at) => { each.x = marks[choice.along][at]; });
    if (picture.scales) layout.yaxis = { ...layout.yaxis, type: choice.log ? "log" : "linear" };
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

async function drawAll() {
  const began = performance.now();
  const plots = [...document.querySelectorAll(".plot")];
  if (plots.length) {
    const script = document.createElement("script");
    script.textContent = await (await unpacked("plotly")).text();
    document.head.append(script);
    const pictures = await (await unpacked("pictures")).json();
    const draw = (plot) => Plotly.react(
      plot, ...asked(pictures[plot.dataset.picture], choiceOf(plot.closest("section"))), options);
    for (const plot of plots) {
      await draw(plot);
      // Lets the browser show what is drawn before the next.
      await new Promise((go) => setTimeout(go));
    }
    for (const control of document.querySelectorAll("[data-control]")) {
      control.addEventListener("change", () => {
        control.closest("section").querySelectorAll(".plot").forEach(draw);
      });
    }
    themes.addEventListener("change", () => plots.forEach(draw));
  }
  document.documentElement.dataset.drawn = plots.length;
  document.documentElement.dataset.seconds = ((performance.now() - began) / 1000).toFixed(2);
}

drawAll().catch((error) => {
  document.getElementById("failed").hidden = false;
  console.error(error);
});
