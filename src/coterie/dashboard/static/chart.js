// Lines over iterations, with bands, names at their ends, and a readout that follows pointer or arrow keys.
import { fitted, h, hideTip, put, showTip, svg } from "./dom.js";
import { count } from "./format.js";

const LEFT = 46, TOP = 8, BOTTOM = 26, NAMES = 118;

// lines: [{name, colour, dash, t, y, low, high, step}]
export function chart({ title, note, lines, format, tick = format, length, closing, mark, height = 230, from = null, to = null, names = true }) {
  const drawing = svg("svg", { class: "chart", height, tabindex: 0, role: "img" });
  const legend = h("div", { class: "legend" });
  const figure = h("figure", { class: "card" },
    h("figcaption", {}, h("h3", {}, title), note && h("p", { class: "note" }, note)), drawing, legend);
  const shown = lines.filter((line) => line.t.length);
  drawing.setAttribute("aria-label", `${title}: ${shown.map((l) => `${l.name} ${format(last(l.y))}`).join(", ")}`);
  if (!shown.length) put(legend, h("p", { class: "note" }, "Nothing has been recorded yet."));
  fitted(figure, draw);
  return figure;

  function draw(width) {
    const inner = drawing.parentElement.clientWidth - 32;
    const beside = names && shown.length <= 8 && inner > 430;
    const right = beside ? NAMES : 12;
    const high = height - BOTTOM;
    const [low, top] = range(shown, from, to);
    const end = Math.max(length ?? 0, ...shown.map((l) => last(l.t)), 1);
    const x = (t) => LEFT + (inner - LEFT - right) * t / end;
    const y = (v) => high - (high - TOP) * (v - low) / (top - low);
    drawing.setAttribute("viewBox", `0 0 ${inner} ${height}`);
    drawing.setAttribute("width", inner);
    const cursor = svg("g", { class: "cursor" });
    put(drawing,
      closing < end && svg("rect", { class: "closing", x: x(closing), y: TOP, width: x(end) - x(closing), height: high - TOP }),
      closing < end && svg("text", { class: "aside", "text-anchor": "end", x: x(end) - 4, y: y(last(shown[0]?.y ?? [0])) > (TOP + high) / 2 ? TOP + 12 : high - 6 }, "alone"),
      ticks(low, top, Math.max(2, Math.floor(height / 40))).map((v) => [
        svg("line", { class: "rule", x1: LEFT, x2: x(end), y1: y(v), y2: y(v) }),
        svg("text", { class: "tick", x: LEFT - 7, y: y(v) + 3.5, "text-anchor": "end" }, tick(v))]),
      ticks(0, end, Math.max(2, Math.floor(inner / 110))).filter((t) => t === 0 || x(t) - LEFT > 84).map((t) =>
        svg("text", { class: "tick", x: x(t), y: height - 8, "text-anchor": t === 0 ? "start" : "middle" },
          t === 0 ? "iteration 0" : count(t))),
      mark !== undefined && mark !== null && svg("line", { class: "mark", x1: x(mark), x2: x(mark), y1: TOP, y2: high }),
      shown.map((line) => line.low && svg("path", { class: "band", d: band(line, x, y), css: { fill: line.colour } })),
      shown.map((line) => svg("path", {
        class: "line", d: stroke(line, x, y), css: { stroke: line.colour, "stroke-dasharray": line.dash || "none" } })),
      shown.map((line) => line.t.length === 1 && svg("circle", { r: 3, cx: x(line.t[0]), cy: y(line.y[0]), css: { fill: line.colour } })),
      beside && ends(shown, y, TOP, high).map(([line, at]) => [
        svg("path", { class: "leader", d: `M${x(last(line.t)) + 2} ${y(last(line.y))}L${inner - right + 10} ${at}`, css: { stroke: line.colour } }),
        svg("text", { class: "name", x: inner - right + 13, y: at + 4, css: { fill: line.colour } }, short(line.name, 11),
          svg("tspan", { class: "value", dx: 5 }, format(last(line.y))))]),
      cursor);
    if (!beside && shown.length && names) {
      put(legend, shown.map((line) => key(line, h("b", {}, ` ${format(last(line.y))}`))));
    } else if (shown.length) put(legend);

    const moments = [...new Set(shown.flatMap((l) => l.t))].sort((a, b) => a - b);
    let at = moments.length - 1;
    const read = (k, px, py) => {
      at = Math.min(moments.length - 1, Math.max(0, k));
      const t = moments[at];
      const near = shown.map((line) => [line, value(line, t)]).filter(([, v]) => v !== null);
      put(cursor, svg("line", { x1: x(t), x2: x(t), y1: TOP, y2: high }),
        near.map(([line, v]) => svg("circle", { r: 3.2, cx: x(t), cy: y(v), css: { fill: line.colour } })));
      showTip(px, py, h("b", {}, `iteration ${count(t)}`), ...near.sort((a, b) => b[1] - a[1]).map(([line, v]) =>
        h("span", {}, h("i", { class: "dot", css: { background: line.colour } }), `${line.name}  `, h("b", {}, format(v)))));
    };
    drawing.onpointermove = (event) => {
      if (!moments.length) return;
      const box = drawing.getBoundingClientRect();
      const t = (event.clientX - box.left - LEFT) / (inner - LEFT - right) * end;
      read(nearest(moments, t), event.clientX, event.clientY);
    };
    drawing.onpointerleave = drawing.onblur = () => { put(cursor); hideTip(); };
    drawing.onkeydown = (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || !moments.length) return;
      event.preventDefault();
      const box = drawing.getBoundingClientRect();
      read(at + by, box.left + x(moments[Math.min(moments.length - 1, Math.max(0, at + by))]), box.top + 40);
    };
  }
}

export const key = (line, ...more) => h("span", { class: "key" },
  svg("svg", { width: 18, height: 8 }, svg("line", { class: "line", x1: 1, x2: 17, y1: 4, y2: 4, css: { stroke: line.colour, "stroke-dasharray": line.dash || "none" } })),
  line.name, more);

const last = (values) => values[values.length - 1];
const short = (name, most) => name.length > most ? `${name.slice(0, most - 1)}…` : name;
const real = (v) => v !== null && v !== undefined;

function range(lines, from, to) {
  const all = lines.flatMap((l) => [...l.y, ...(l.low ?? []), ...(l.high ?? [])]).filter(real);
  let low = from ?? Math.min(...all, Infinity), top = to ?? Math.max(...all, -Infinity);
  if (!Number.isFinite(low) || !Number.isFinite(top)) [low, top] = [0, 1];
  if (low === top) [low, top] = low === 0 ? [0, 1] : [low - Math.abs(low) * 0.1, top + Math.abs(top) * 0.1];
  const room = (top - low) * 0.05;
  return [from === null ? low - room : low, to === null ? top + room : top];
}

export function ticks(low, top, about) {
  const raw = (top - low) / about, size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * size).find((s) => s >= raw);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= top + step * 1e-9; v += step) found.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return found;
}

function stroke({ t, y: values, step }, x, y) {
  let path = "", pen = "M";
  t.forEach((at, k) => {
    if (!real(values[k])) { pen = "M"; return; }
    if (step && pen === "L") path += `H${x(at).toFixed(1)}`;
    path += `${pen}${x(at).toFixed(1)} ${y(values[k]).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

function band({ t, low, high }, x, y) {
  const known = t.map((at, k) => [at, low[k], high[k]]).filter(([, a, b]) => real(a) && real(b));
  if (known.length < 2) return "";
  const there = known.map(([at, , b]) => `${x(at).toFixed(1)} ${y(b).toFixed(1)}`);
  const back = known.reverse().map(([at, a]) => `${x(at).toFixed(1)} ${y(a).toFixed(1)}`);
  return `M${there.join("L")}L${back.join("L")}Z`;
}

// Names beside the ends of the lines, moved apart where they would overlap.
function ends(lines, y, top, bottom) {
  const placed = lines.filter((l) => real(last(l.y))).map((line) => [line, y(last(line.y))]).sort((a, b) => a[1] - b[1]);
  for (let round = 0; round < 60; round += 1) {
    for (let k = 0; k + 1 < placed.length; k += 1) {
      const lack = 16 - (placed[k + 1][1] - placed[k][1]);
      if (lack > 0) { placed[k][1] -= lack / 2; placed[k + 1][1] += lack / 2; }
    }
    if (placed.length && placed[0][1] < top + 4) placed[0][1] = top + 4;
    if (placed.length && placed.at(-1)[1] > bottom) placed.at(-1)[1] = bottom;
  }
  return placed;
}

function nearest(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle; else high = middle;
  }
  return value - sorted[low] < sorted[high] - value ? low : high;
}

function value(line, t) {
  if (t < line.t[0]) return null;
  const k = nearest(line.t, t);
  return line.t[k] === t ? line.y[k] : line.step ? line.y[line.t[k] > t ? k - 1 : k] : null;
}
