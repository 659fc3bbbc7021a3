// Who gains by joining: how much better every client is than its Local twin, from the greatest loss to the greatest
// gain. The bars are one stop of the tabulator: arrow keys go from client to client, Enter opens one.
import { ticks } from "./curve.js";
import { choice, fitted, h, put, svg } from "./dom.js";
import { csvButton, painted, pngButton } from "./download.js";
import { called, numbered } from "./format.js";
import { wording } from "./metric.js";

const TITLE = "Who gains by joining",
  HIGH = 210,
  LEFT = 40,
  EDGE = 16, // above and below the bars, for the marks
  MARK = 4.5,
  LEAST = 2; // pixels from one bar to the next
const HINT =
  "Point at a bar, or go along with the arrow keys, to read a client; click, or press Enter, to open it.";

export function gains(source, query, remember, link) {
  const chosen = { method: query.method, seed: query.seed };
  const tools = h("div", { class: "tools" }),
    lead = h("p", { class: "lead" }),
    bars = h("div");
  const node = h(
    "div",
    { class: "card gains", role: "group", "aria-label": TITLE, hidden: true },
    h("h3", {}, TITLE),
    tools,
    lead,
    bars,
  );
  let shown = "",
    alone = [];
  return { node, load };

  // rows: those of the result table, by which Local is known.
  async function load(rows) {
    alone = rows.filter((row) => row.alone).map((row) => row.name);
    if (alone.includes(chosen.method)) [chosen.method, chosen.seed] = [];
    await show();
  }

  async function show() {
    // A link may name a method that this run has not evaluated yet.
    const found = await source.get("clients", chosen).catch(() => source.get("clients"));
    node.hidden = !found.worlds.length;
    if (shown === (shown = JSON.stringify(found)) || node.hidden) return; // nothing new: what is read stays
    put(tools, pick(found));
    put(lead, found.tally);
    put(bars, found.gain !== null && figure(found, link));
  }

  function pick(found) {
    const worlds = found.worlds.filter((world) => !alone.includes(world.method));
    const own = worlds.filter((world) => world.method === found.method);
    const change = (next) => {
      Object.assign(chosen, next);
      remember?.(chosen);
      show();
    };
    const first = (method) => worlds.find((world) => world.method === method).seed;
    if (!worlds.length) return null;
    return [
      choice(
        "method",
        [...new Set(worlds.map((world) => world.method))].map((name) => [name, name]),
        found.method,
        (method) => change({ method, seed: first(method) }),
      ),
      choice(
        "seed",
        own.map(({ seed }) => [seed, seed]),
        found.seed,
        (seed) => change({ method: found.method, seed }),
      ),
    ];
  }
}

function figure(found, link) {
  const { gain } = found,
    said = wording(found.metric);
  const order = [...gain.keys()].filter((k) => gain[k] !== null).sort((a, b) => gain[a] - gain[b] || a - b);
  const drawing = svg("svg", {
    class: `chart${link ? "" : " unlinked"}`,
    height: HIGH,
    tabindex: 0,
    role: "img",
    "aria-label": `${found.tally} Arrow keys go from client to client.`,
  });
  const cursor = svg("g"),
    read = h("p", { class: "read", role: "status" }, link ? HINT : null);
  const thinned = h("span"),
    keys = h("div", { class: "legend" }, legend(found.surely !== null), thinned);
  const node = h(
    "figure",
    { class: "card" },
    h(
      "figcaption",
      {},
      h("p", { class: "note" }, about(found, said)),
      h(
        "span",
        { class: "gets" },
        csvButton(`${TITLE} ${found.method} seed ${found.seed}`, () => table(found, order)),
        pngButton(TITLE, () => painted(`${TITLE}: ${found.method}`, drawing, [])),
      ),
    ),
    drawing,
    keys,
    read,
  );
  const top = Math.max(said.step, ...order.map((k) => gain[k])),
    low = Math.min(0, ...order.map((k) => gain[k]));
  const y = (v) => EDGE + ((HIGH - 2 * EDGE) * (top - v)) / (top - low);
  let at = null,
    step = 0;
  fitted(node, draw);
  drawing.onpointermove = (event) => go(pointed(event));
  drawing.onclick = (event) => open(pointed(event));
  drawing.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Enter") open(at);
    if (!by) return;
    event.preventDefault();
    go(Math.min(order.length - 1, Math.max(0, (at ?? (by > 0 ? -1 : order.length)) + by)));
  };
  return node;

  function draw() {
    const wide = node.clientWidth - 2 * parseFloat(getComputedStyle(node).paddingLeft);
    step = (wide - LEFT) / order.length;
    const every = Math.ceil(LEAST / step);
    put(thinned, every > 1 && `one bar in ${every} is drawn`);
    drawing.setAttribute("width", wide);
    drawing.setAttribute("viewBox", `0 0 ${wide} ${HIGH}`);
    put(
      drawing,
      ticks(said.scale * low, said.scale * top, 5).map((v) => {
        const height = y(v / said.scale);
        return [
          svg("line", { class: v ? "rule" : "zero", x1: LEFT, x2: wide, y1: height, y2: height }),
          svg("text", { class: "tick", x: LEFT - 7, y: height + 3.5, "text-anchor": "end" }, signed(v)),
        ];
      }),
      cursor,
      order.map((k, place) => place % every === 0 && bar(found, k, LEFT + place * step, every * step, y)),
    );
    mark();
  }

  function pointed(event) {
    const place = Math.floor((event.clientX - drawing.getBoundingClientRect().left - LEFT) / step);
    return place >= 0 && place < order.length ? place : null;
  }

  function go(place) {
    if (place === null || place === at) return;
    at = place;
    mark();
    const k = order[at];
    put(read, [
      name(k),
      `: ${said.full(found.personal[k])}, ${said.gain(gain[k])} over Local, ${verdict(found, k)}`,
    ]);
  }

  function mark() {
    put(
      cursor,
      at !== null &&
        svg("rect", { class: "here", x: LEFT + at * step, width: Math.max(step, 2), y: 0, height: HIGH }),
    );
  }

  function name(k) {
    const text = called(numbered(found, k), found.owner?.[k]);
    return link ? h("a", { href: there(k) }, text) : text;
  }

  function there(k) {
    return link({ method: found.method, seed: found.seed, client: numbered(found, k) });
  }

  function open(place) {
    if (link && place !== null) location.hash = there(order[place]);
  }
}

// The bar of client k from `left` on, with a triangle where gain or loss is beyond noise.
function bar({ gain, surely }, k, left, step, y) {
  const wide = step > 4 ? 0.8 * step : step,
    middle = left + step / 2,
    [high, low] = [Math.max(gain[k], 0), Math.min(gain[k], 0)].map(y);
  const kind = gain[k] > 0 ? "gained" : gain[k] < 0 ? "lost" : "level";
  const sure = Math.sign(surely?.[k] ?? 0);
  const level = kind === "level" ? 1.5 : 0; // so that it is seen at all
  return [
    svg("rect", {
      class: `${kind}${surely && gain[k] && !sure ? " noise" : ""}`,
      "data-client": k,
      x: (middle - wide / 2).toFixed(2),
      width: wide.toFixed(2),
      y: (high - level).toFixed(2),
      height: (low - high + 2 * level).toFixed(2),
    }),
    sure !== 0 &&
      triangle(middle, sure > 0 ? high - 5 : low + 5, sure, Math.min(MARK, Math.max(1.5, step / 2))),
  ];
}

// Points up for a gain and down for a loss, its base at height y.
const triangle = (x, y, sign, half) =>
  svg("path", { class: "sure", d: `M${x - half} ${y}h${2 * half}L${x} ${y - 1.6 * half * sign}Z` });

function legend(told) {
  const swatch = (kind) =>
    svg("svg", { width: 12, height: 12 }, svg("rect", { class: kind, width: 12, height: 12 }));
  const sign = (direction) =>
    svg("svg", { width: 12, height: 12 }, triangle(6, direction > 0 ? 10 : 2, direction, 5));
  const key = (picture, text) => h("span", { class: "key" }, picture, text);
  return [
    key(swatch("gained"), "gained"),
    key(swatch("level"), "level"),
    key(swatch("lost"), "lost"),
    told && [
      key(sign(1), "surely gained (95 %)"),
      key(sign(-1), "surely lost (95 %)"),
      h("span", {}, "pale: within noise"),
    ],
  ];
}

const about = ({ classes }, { gains: unit, direction }) => {
  const over = `${unit} gained over the same client learning alone, on its own ${classes.length ? "labels" : "samples"}`;
  return direction ? `${over}; up is better` : over;
};

const signed = (v) => `${v > 0 ? "+" : v < 0 ? "−" : ""}${Number(Math.abs(v).toPrecision(3))}`;

function verdict({ gain, surely }, k) {
  const sign = Math.sign(surely?.[k] ?? 0);
  if (sign) return sign > 0 ? "surely gained" : "surely lost";
  return `${gain[k] > 0 ? "gained" : gain[k] < 0 ? "lost" : "level"}${gain[k] && surely ? ", within noise" : ""}`;
}

function table(found, order) {
  const sure = (k) => found.surely?.[k] ?? null;
  return [
    ["client", ...(found.owner ? ["owner"] : []), "gain over Local", "personal", "verdict", "surely"],
    ...order.map((k) => [
      numbered(found, k),
      ...(found.owner ? [found.owner[k]] : []),
      found.gain[k],
      found.personal[k],
      verdict(found, k),
      sure(k),
    ]),
  ];
}
