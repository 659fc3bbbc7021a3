// The heat map of W: row = who listens, column = who speaks. A click or the arrow keys choose a client.
import { fitted, h, hideTip, showTip } from "./dom.js";
import { amount } from "./format.js";
import { groupInk, heat, ink, isDark } from "./palette.js";

const NOT_MET = 254, SELF = 255, EDGE = 9;

export function heatMap(choose) {
  const canvas = h("canvas", { class: "square", tabindex: 0, role: "img" });
  const scale = h("div", { class: "scale" });
  const node = h("div", { class: "picture" }, canvas, scale);
  let network, frame, order, selected, codes, size = 0;
  const again = fitted(node, (width) => { size = width; draw(); });

  canvas.addEventListener("pointermove", (event) => {
    const pair = at(event);
    if (!pair) return hideTip();
    const [i, j] = pair;
    const code = frame.share === 1 ? codes[i * frame.side + j] : cell(event);
    const text = i === j ? `${name(i)} itself` : `${name(i)} listens to ${name(j)}: `;
    const weight = code === NOT_MET ? "not met yet" : `${amount(code / 253 * frame.top)}${code === 253 ? " or more" : ""}`;
    showTip(event.clientX, event.clientY, h("span", {}, text, i !== j && h("b", {}, weight)),
      frame.share > 1 ? `mean over ${frame.share} × ${frame.share} of them` : null);
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => { const pair = at(event); if (pair) choose(pair[0]); });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (!by || !order) return;
    event.preventDefault();
    const next = order.indexOf(selected ?? order[0]) + by;
    choose(order[Math.min(order.length - 1, Math.max(0, next))]);
  });

  return { node, show(now) { ({ network, frame, order, selected } = now); codes = decode(frame.cells); draw(); }, again };

  function name(i) { return network.names?.[i] ?? `client ${i}`; }

  function at(event) {
    if (!frame) return null;
    const box = canvas.getBoundingClientRect();
    const [row, column] = [event.clientY - box.top, event.clientX - box.left]
      .map((p) => Math.floor((p - EDGE) / (box.width - EDGE) * order.length));
    return row >= 0 && column >= 0 && row < order.length && column < order.length ? [order[row], order[column]] : null;
  }

  function cell(event) {
    const box = canvas.getBoundingClientRect();
    const [row, column] = [event.clientY - box.top, event.clientX - box.left]
      .map((p) => Math.min(frame.side - 1, Math.floor((p - EDGE) / (box.width - EDGE) * frame.side)));
    return codes[row * frame.side + column];
  }

  function draw() {
    if (!frame || !size) return;
    const ratio = devicePixelRatio || 1, pen = canvas.getContext("2d"), inner = size - EDGE;
    canvas.width = canvas.height = Math.round(size * ratio);
    pen.scale(ratio, ratio);
    const picture = new ImageData(frame.side, frame.side);
    const faint = isDark() ? [38, 43, 51] : [240, 240, 238], own = isDark() ? [62, 69, 80] : [214, 214, 210];
    const ramp = Array.from({ length: 254 }, (_, k) => heat(k / 253));
    const n = frame.side, moved = frame.share === 1;
    for (let r = 0; r < n; r += 1) for (let c = 0; c < n; c += 1) {
      const code = moved ? codes[order[r] * n + order[c]] : codes[r * n + c];
      const [red, green, blue] = code === SELF ? own : code === NOT_MET ? faint : ramp[code];
      picture.data.set([red, green, blue, 255], 4 * (r * n + c));
    }
    const small = new OffscreenCanvas(n, n);
    small.getContext("2d").putImageData(picture, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, EDGE, EDGE, inner, inner);
    const step = inner / order.length;
    if (network.names) named(pen, step); else groups(pen, step);
    pen.strokeStyle = ink("hair");
    pen.strokeRect(EDGE + 0.5, EDGE + 0.5, inner - 1, inner - 1);
    const row = order.indexOf(selected);
    if (row >= 0) {
      pen.strokeStyle = ink("accent");
      pen.lineWidth = 2;
      pen.strokeRect(EDGE, EDGE + row * step - 0.5, inner - 1, Math.max(step, 2) + 1);
    }
    canvas.setAttribute("aria-label", `Who listens to whom ${frame.when ?? `at iteration ${frame.t}`}; arrow keys choose a row`);
    legend();
  }

  // Each name where its row and its column meet.
  function named(pen, step) {
    pen.fillStyle = ink("text");
    pen.font = `600 12px ${getComputedStyle(canvas).fontFamily}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    order.forEach((i, k) => {
      if (pen.measureText(name(i)).width < step - 6) pen.fillText(name(i), EDGE + (k + 0.5) * step, EDGE + (k + 0.5) * step);
    });
  }

  function groups(pen, step) {
    let start = 0;
    order.forEach((client, k) => {
      if (k + 1 < order.length && network.group[order[k + 1]] === network.group[client]) return;
      pen.fillStyle = groupInk(network.group[client]);
      pen.fillRect(0, EDGE + start * step + 0.5, EDGE - 4, (k + 1 - start) * step - 1);
      pen.fillRect(EDGE + start * step + 0.5, 0, (k + 1 - start) * step - 1, EDGE - 4);
      start = k + 1;
    });
  }

  function legend() {
    const stops = [0, 0.25, 0.5, 0.75, 1].map((v) => `rgb(${heat(v).join(" ")}) ${100 * v}%`);
    scale.replaceChildren(h("span", {}, "weight 0"),
      h("i", { css: { background: `linear-gradient(90deg, ${stops.join(", ")})` } }),
      h("span", {}, `${amount(frame.top)} or more`),
      h("i", { class: "swatch", css: { background: isDark() ? "rgb(38 43 51)" : "rgb(240 240 238)" } }), h("span", {}, "not met"));
  }
}

const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
