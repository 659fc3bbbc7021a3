// The heat map of W: row = who listens, column = who speaks. A click or the arrow keys choose a client.
import { fitted, h, hideTip, showTip } from "./dom.js";
import { amount, called } from "./format.js";
import { groupInk, heat, ink, isDark } from "./palette.js";

const NOT_MET = 254,
  SELF = 255,
  BAR = 5,
  NUMBERS = 30,
  NAMES = 9;
const own = () => (isDark() ? [62, 69, 80] : [214, 214, 210]);

export function heatMap(choose) {
  const canvas = h("canvas", {
    class: "square",
    tabindex: 0,
    role: "img",
    "aria-label": "Who listens to whom",
  });
  const scale = h("div", { class: "scale" });
  const node = h("div", { class: "picture" }, canvas, scale);
  let world,
    frame,
    order,
    selected,
    codes,
    size = 0,
    edge = NUMBERS;
  const again = fitted(node, (width) => {
    size = width;
    draw();
  });

  canvas.addEventListener("pointermove", (event) => {
    const pair = at(event, order?.length);
    if (!pair) return hideTip();
    const [i, j] = pair.map((k) => order[k]);
    const [row, column] = frame.share === 1 ? [i, j] : at(event, frame.side);
    const code = codes[row * frame.side + column];
    const self = i === j && !world.by;
    const text = self ? `${name(i)} itself` : `${name(i)} listens to ${name(j)}: `;
    const more = code === 253 ? " or more" : "";
    const weight = code === NOT_MET ? "not met yet" : `${amount((code / 253) * frame.top)}${more}`;
    showTip(
      event.clientX,
      event.clientY,
      h("span", {}, text, !self && h("b", {}, weight)),
      frame.share > 1 ? `mean over ${frame.share} × ${frame.share} of them` : world.by ? "on average" : null,
    );
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => {
    const pair = at(event, order?.length);
    if (pair) choose(order[pair[0]]);
  });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (!by || !order) return;
    event.preventDefault();
    const next = order.indexOf(selected ?? order[0]) + by;
    choose(order[Math.min(order.length - 1, Math.max(0, next))]);
  });

  return {
    node,
    canvas,
    again,
    rows,
    show(now) {
      ({ world, frame, order, selected } = now);
      codes = decode(frame.cells);
      edge = world.names ? NAMES : NUMBERS;
      canvas.dataset.edge = edge;
      draw();
    },
  };

  // What is drawn as numbers: weights to a 253rd of the scale, nothing for pairs that have not met.
  function rows() {
    const { side, share, top } = frame,
      places = Array.from({ length: side }, (_, k) => order[k * share]);
    const weight = (r, c) => {
      const code = codes[share === 1 ? order[r] * side + order[c] : r * side + c];
      return code > 253 ? null : Number(((code / 253) * top).toPrecision(4));
    };
    return [
      ["listens", ...places.map((i) => `to ${name(i)}`)],
      ...places.map((i, r) => [name(i), ...places.map((_, c) => weight(r, c))]),
    ];
  }

  function name(i) {
    return world.names?.[i] ?? called(i, world.owners?.[i]);
  }

  // Row and column at the pointer, of so many.
  function at(event, many) {
    if (!frame) return null;
    const box = canvas.getBoundingClientRect();
    const found = [event.clientY - box.top, event.clientX - box.left].map((p) =>
      Math.floor(((p - edge) / (box.width - edge)) * many),
    );
    return found.every((k) => k >= 0 && k < many) ? found : null;
  }

  function draw() {
    if (!frame || !size) return;
    const ratio = devicePixelRatio || 1,
      pen = canvas.getContext("2d"),
      inner = size - edge;
    canvas.width = canvas.height = Math.round(size * ratio);
    pen.scale(ratio, ratio);
    const n = frame.side,
      picture = new ImageData(n, n),
      ramp = Array.from({ length: 254 }, (_, k) => heat(k / 253));
    for (let r = 0; r < n; r += 1)
      for (let c = 0; c < n; c += 1) {
        const code = frame.share === 1 ? codes[order[r] * n + order[c]] : codes[r * n + c];
        if (code !== NOT_MET)
          picture.data.set([...(code === SELF ? own() : ramp[code]), 255], 4 * (r * n + c));
      }
    const small = new OffscreenCanvas(n, n);
    small.getContext("2d").putImageData(picture, 0, 0);
    hatch(pen, edge, edge, inner, inner); // shows through where nobody met
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, edge, edge, inner, inner);
    const step = inner / order.length;
    if (world.names) named(pen, step);
    else {
      groups(pen, step);
      numbers(pen, step);
    }
    pen.strokeStyle = ink("hair");
    pen.lineWidth = 1;
    pen.strokeRect(edge + 0.5, edge + 0.5, inner - 1, inner - 1);
    const row = order.indexOf(selected);
    if (row >= 0) {
      pen.strokeStyle = ink("accent");
      pen.lineWidth = 2;
      pen.strokeRect(edge, edge + row * step - 0.5, inner - 1, Math.max(step, 2) + 1);
    }
    const when = frame.when ?? `at iteration ${frame.t}`;
    canvas.setAttribute("aria-label", `Who listens to whom ${when}; arrow keys choose a row`);
    legend();
  }

  // Each name where its row and its column meet.
  function named(pen, step) {
    pen.fillStyle = ink("text");
    pen.font = `600 12px ${getComputedStyle(canvas).fontFamily}`;
    [pen.textAlign, pen.textBaseline] = ["center", "middle"];
    [pen.strokeStyle, pen.lineWidth, pen.lineJoin] = [ink("card"), 4, "round"];
    order.forEach((i, k) => {
      const middle = edge + (k + 0.5) * step;
      if (pen.measureText(name(i)).width >= step - 6) return;
      if (world.by) pen.strokeText(name(i), middle, middle); // a halo, for cells may be dark
      pen.fillText(name(i), middle, middle);
    });
  }

  // The clients' numbers along both edges, as many of them as there is room for.
  function numbers(pen, step) {
    pen.fillStyle = ink("soft");
    pen.font = `10px ${getComputedStyle(canvas).fontFamily}`;
    pen.textBaseline = "middle";
    const every = Math.ceil(Math.max(11, pen.measureText(String(order.length)).width + 4) / step);
    for (let k = 0; k < order.length; k += every) {
      const middle = edge + (k + 0.5) * step;
      pen.textAlign = "right";
      pen.fillText(String(order[k]), edge - 4, middle);
      pen.textAlign = "center";
      pen.fillText(String(order[k]), middle, edge - 9);
    }
  }

  function groups(pen, step) {
    let start = 0;
    order.forEach((client, k) => {
      if (k + 1 < order.length && world.group[order[k + 1]] === world.group[client]) return;
      pen.fillStyle = groupInk(world.group[client]);
      pen.fillRect(0, edge + start * step + 0.5, BAR, (k + 1 - start) * step - 1);
      pen.fillRect(edge + start * step + 0.5, 0, (k + 1 - start) * step - 1, BAR);
      start = k + 1;
    });
  }

  function legend() {
    const stops = [0, 0.25, 0.5, 0.75, 1].map((v) => `rgb(${heat(v).join(" ")}) ${100 * v}%`);
    const swatch = (text, look) => h("span", { class: "key" }, h("i", look), text);
    scale.replaceChildren(
      h("span", {}, "weight 0"),
      h("i", { class: "ramp", css: { background: `linear-gradient(90deg, ${stops.join(", ")})` } }),
      h("span", {}, `${amount(frame.top)} or more`),
      swatch("not met", { class: "hatched" }),
      world.by ? "" : swatch("itself", { css: { background: `rgb(${own().join(" ")})` } }),
    );
  }
}

// Thin diagonal lines: what is not known, as opposed to a weight of 0.
function hatch(pen, left, top, width, height) {
  pen.save();
  pen.fillStyle = ink("paper");
  pen.fillRect(left, top, width, height);
  pen.beginPath();
  pen.rect(left, top, width, height);
  pen.clip();
  pen.beginPath();
  for (let d = -height; d < width; d += 5) {
    pen.moveTo(left + d, top + height);
    pen.lineTo(left + d + height, top);
  }
  pen.strokeStyle = ink("hatch");
  pen.lineWidth = 1;
  pen.stroke();
  pen.restore();
}

const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
