// Mean ranks on one axis, the best at the left; bars join methods that cannot be told apart.
import { fitted, h, hideTip, put, showTip, svg } from "./dom.js";
import { csvButton, painted, pngButton } from "./download.js";
import { probability } from "./measures.js";

const TITLE = "Mean ranks",
  AXIS = 58,
  LINE = 19,
  BAR = 9,
  EDGE = 10,
  LETTER = 7, // pixels, at most, of a letter of a name
  NARROW = 620;

// ranking: as in leaderboard.json, with a critical difference.
export function ranks(ranking) {
  const drawing = svg("svg", { class: "chart ranks", role: "img", "aria-label": TITLE });
  const names = Object.keys(ranking.mean_rank);
  const rank = (name) => ranking.mean_rank[name];
  const figure = h(
    "figure",
    { class: "card" },
    h(
      "figcaption",
      {},
      h("h3", {}, TITLE),
      h(
        "span",
        { class: "gets" },
        csvButton(TITLE, () => [["method", "mean rank"], ...names.map((name) => [name, rank(name)])]),
        pngButton(TITLE, () => painted(TITLE, drawing, [])),
      ),
      h(
        "p",
        { class: "note" },
        `over ${ranking.columns.length} columns, 1 is the best; bars join methods that Nemenyi's test does not ` +
          `tell apart at ${100 * ranking.alpha} %; p of Friedman's test: ${probability(ranking.friedman_p)}`,
      ),
    ),
    drawing,
  );
  fitted(figure, draw);
  return figure;

  function draw() {
    const inner = figure.clientWidth - 2 * parseFloat(getComputedStyle(figure).paddingLeft);
    const one = inner < NARROW; // all names at the left
    const half = one ? names.length : Math.ceil(names.length / 2);
    const wide = Math.min(LETTER * (5 + Math.max(...names.map((name) => name.length))), 0.45 * inner);
    const [left, right] = [wide + EDGE, one ? inner - EDGE : inner - wide - EDGE];
    const x = (at) => left + ((right - left) * (at - 1)) / (names.length - 1);
    const levels = stacked(ranking.cliques, names);
    const first = AXIS + 22 + BAR * (1 + Math.max(-1, ...levels));
    const height = first + LINE * (half - 1) + 12;
    for (const [key, value] of Object.entries({ width: inner, height, viewBox: `0 0 ${inner} ${height}` }))
      drawing.setAttribute(key, value);
    drawing.setAttribute("aria-label", `${TITLE}: ${names.map(said).join(", ")}. ${told()}`);
    put(
      drawing,
      scale(x, Math.ceil(names.length / Math.max(2, (right - left) / 34))),
      names.map((name, k) => {
        const y = first + LINE * (k < half ? k : names.length - 1 - k);
        return method(
          name,
          x(rank(name)),
          y,
          k < half ? [left - EDGE, "end", -5] : [right + EDGE, "start", 5],
        );
      }),
      ranking.cliques.map((clique, k) => bar(clique, x, AXIS + 14 + BAR * levels[k])),
    );
  }

  function said(name) {
    return `${name} ${rank(name).toFixed(1)}`;
  }

  function told() {
    const sets = ranking.cliques.map((clique) => clique.join(", "));
    return sets.length ? `Not told apart: ${sets.join("; ")}.` : "All are told apart.";
  }

  function scale(x, step) {
    const end = Math.min(1 + ranking.critical_difference, names.length);
    const marks = names.map((_, k) => k + 1).filter((k) => (k - 1) % step === 0);
    return [
      svg("line", { class: "axis", x1: x(1), x2: x(names.length), y1: AXIS, y2: AXIS }),
      marks.map((k) => [
        svg("line", { class: "axis", x1: x(k), x2: x(k), y1: AXIS - 5, y2: AXIS }),
        svg("text", { class: "tick", x: x(k), y: AXIS - 9, "text-anchor": "middle" }, String(k)),
      ]),
      svg("line", { class: "axis", x1: x(1), x2: x(end), y1: 22, y2: 22 }),
      svg("line", { class: "axis", x1: x(1), x2: x(1), y1: 18, y2: 26 }),
      1 + ranking.critical_difference <= names.length &&
        svg("line", { class: "axis", x1: x(end), x2: x(end), y1: 18, y2: 26 }),
      svg(
        "text",
        { class: "tick", x: x(1), y: 12 },
        `critical difference ${ranking.critical_difference.toFixed(2)}`,
      ),
    ];
  }

  function method(name, at, y, [edge, anchor, gap]) {
    return svg(
      "g",
      { class: "method" },
      svg("path", { class: "leader", d: `M${at} ${AXIS}V${y}H${edge}` }),
      svg("circle", { cx: at, cy: AXIS, r: 3.5 }),
      svg("text", { class: "name", x: edge + gap, y: y + 4, "text-anchor": anchor }, said(name)),
    );
  }

  function bar(clique, x, y) {
    const show = (event) =>
      showTip(event.clientX, event.clientY, h("b", {}, "not told apart"), clique.map(said).join(", "));
    const [from, to] = [rank(clique[0]), rank(clique.at(-1))].map(x);
    return svg("line", {
      class: "clique",
      x1: from - 4,
      x2: to + 4,
      y1: y,
      y2: y,
      onpointermove: show,
      onpointerleave: hideTip,
    });
  }
}

// The level of each bar: the lowest at which none before it is in the way.
function stacked(cliques, names) {
  const ends = [];
  return cliques.map((clique) => {
    const [from, to] = [clique[0], clique.at(-1)].map((name) => names.indexOf(name));
    const free = ends.findIndex((end) => end < from);
    const level = free < 0 ? ends.length : free;
    ends[level] = to;
    return level;
  });
}
