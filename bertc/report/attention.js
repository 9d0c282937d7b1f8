// Heads of attention: a small canvas each, drawn when it comes into view, and one of them closer.

const MOST_LABELS = 40;

function made(tag, properties = {}, ...children) {
  const found = Object.assign(document.createElement(tag), properties);
  found.append(...children);
  return found;
}

function colour(name) {
  const probe = made("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name);
  probe.fillRect(0, 0, 1, 1);
  return probe.getImageData(0, 0, 1, 1).data;
}

async function showAttention(root) {
  const about = await unpacked(`${root.dataset.maps}-about`).json();
  const levels = new Uint8Array(await unpacked(root.dataset.maps).arrayBuffer());
  const heads = about.heads.flatMap((count, layer) => Array.from({ length: count }, (_, head) => [layer, head]));
  const tokens = about.tokens, count = tokens.length;
  let chosen = 0, query = -1, low, high;

  const mapOf = (number) => levels.subarray(number * count * count, (number + 1) * count * count);
  // The square root shows small shares too.
  const draw = (canvas, number) => {
    canvas.width = canvas.height = count;
    const context = canvas.getContext("2d"), image = context.createImageData(count, count);
    mapOf(number).forEach((level, at) => {
      const share = Math.sqrt(level / 255);
      for (let part = 0; part < 3; part++) image.data[4 * at + part] = low[part] + share * (high[part] - low[part]);
      image.data[4 * at + 3] = 255;
    });
    context.putImageData(image, 0, 0);
  };

  const large = made("canvas"), down = made("div", { className: "down" }), across = made("div", { className: "across" });
  const map = made("div", { className: "map" }, made("span"), across, down, large);
  const scale = made("div", { className: "scale note" }, ...[0, 5, 25, 50, 100].map((percent) => {
    const mark = made("span", { textContent: `${percent}%` });
    mark.style.left = `${100 * Math.sqrt(percent / 100)}%`;
    return mark;
  }));
  const told = made("p", { className: "note" }), words = made("div", { className: "words" });
  const title = made("h3");
  const closer = made("div", { className: "closer" },
    made("div", {}, title, map, scale, told), made("div", {}, words));
  const buttons = heads.map(([layer, head], number) => {
    const button = made("button", { className: "head", type: "button" },
      made("canvas"), made("small", { textContent: `${layer}.${head}` }));
    button.addEventListener("click", () => { chosen = number; showCloser(); closer.scrollIntoView({ block: "nearest" }); });
    return button;
  });
  // Tokens beside a map; of many each second, third, ..., so that they can be read.
  const labels = () => tokens.map((token, at) => made("span", {
    textContent: at % Math.ceil(count / MOST_LABELS) ? "" : token, title: token,
  }));
  const seen = new Set();
  const watching = new IntersectionObserver((entries) => entries.forEach((entry) => {
    const number = buttons.indexOf(entry.target);
    if (entry.isIntersecting && !seen.has(number)) {
      seen.add(number);
      draw(entry.target.firstChild, number);
    }
  }), { rootMargin: "200px" });

  function showCloser() {
    const [layer, head] = heads[chosen], map = mapOf(chosen);
    buttons.forEach((button, number) => button.setAttribute("aria-pressed", number === chosen));
    title.textContent = `Layer ${layer}, head ${head}`;
    draw(large, chosen);
    large.style.aspectRatio = 1;
    down.replaceChildren(...labels());
    across.replaceChildren(...labels());
    const row = query < 0 ? null : map.subarray(query * count, (query + 1) * count);
    words.replaceChildren(...tokens.map((token, at) => {
      const button = made("button", { type: "button", textContent: token });
      button.setAttribute("aria-pressed", at === query);
      button.style.setProperty("--share", row ? (row[at] / 255).toFixed(3) : 0);
      button.title = row ? `${(row[at] / 2.55).toFixed(1)}%` : "";
      button.addEventListener("click", () => { query = query === at ? -1 : at; showCloser(); });
      return button;
    }));
    const best = row && [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, 5);
    told.textContent = row
      ? `${tokens[query]} looks at ${best.map((at) => `${tokens[at]} ${(row[at] / 2.55).toFixed(1)}%`).join(", ")}`
      : "Choose a token to see what it looks at.";
  }
  large.addEventListener("mousemove", (event) => {
    const box = large.getBoundingClientRect();
    const at = [
      Math.min(count - 1, Math.max(0, Math.floor((event.clientY - box.top) / box.height * count))),
      Math.min(count - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * count))),
    ];
    const level = mapOf(chosen)[at[0] * count + at[1]];
    told.textContent = `${tokens[at[0]]} looks at ${tokens[at[1]]}: ${(level / 2.55).toFixed(1)}%`;
  });
  large.addEventListener("mouseleave", () => showCloser());

  function showAll() {
    [low, high] = [colour("--back"), colour("--accent")];
    seen.clear();
    query = -1;
    buttons.forEach((button) => { watching.unobserve(button); watching.observe(button); });
    showCloser();
  }
  root.append(closer);
  about.heads.forEach((count, layer) => {
    const own = buttons.filter((_, number) => heads[number][0] === layer);
    root.append(made("div", { className: "layer" },
      made("p", { className: "note", textContent: `layer ${layer}` }), made("div", { className: "heads" }, ...own)));
  });
  themes.addEventListener("change", showAll);
  showAll();
  root.dataset.heads = heads.length;
}

document.querySelectorAll(".attention").forEach((root) => showAttention(root).catch((error) => {
  document.getElementById("failed").hidden = false;
  console.error(error);
}));
