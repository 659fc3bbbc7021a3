// What a client has: training samples by label, as columns or as bars with names.
import { h, svg } from "./dom.js";
import { labelColour } from "./palette.js";

// One small column for each label; the scale is the client's own largest label, or `most`.
export function columns(labels, { width = 120, height = 30, most = Math.max(...labels, 1) } = {}) {
  const step = width / labels.length,
    gap = labels.length > 24 ? 0 : Math.min(2, step * 0.2);
  return svg(
    "svg",
    { class: "columns", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    svg("line", { class: "rule", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
    labels.map(
      (n, k) =>
        n > 0 &&
        svg("rect", {
          x: (k * step + gap / 2).toFixed(2),
          width: Math.max(0.5, step - gap).toFixed(2),
          y: (height - 1 - ((height - 2) * n) / most).toFixed(2),
          height: (((height - 2) * n) / most).toFixed(2),
          css: { fill: labelColour(k, labels.length) },
        }),
    ),
  );
}

export function bars(labels, classes) {
  const most = Math.max(...labels, 1),
    total = labels.reduce((a, b) => a + b, 0) || 1;
  const rows = labels.map((n, k) => [n, k]);
  const kept =
    labels.length > 16
      ? rows
          .filter(([n]) => n)
          .sort((a, b) => b[0] - a[0])
          .slice(0, 16)
      : rows;
  return h(
    "div",
    { class: "bars" },
    kept.map(([n, k]) =>
      h(
        "div",
        { class: "bar" },
        h("span", { class: "who", title: classes[k] }, classes[k]),
        h(
          "span",
          { class: "track" },
          h("i", { css: { width: `${(100 * n) / most}%`, background: labelColour(k, labels.length) } }),
        ),
        h("span", { class: "figure" }, `${n}`, h("small", {}, ` ${Math.round((100 * n) / total)} %`)),
      ),
    ),
    kept.length < labels.length &&
      h("p", { class: "note" }, `the ${kept.length} most frequent of ${labels.length} labels`),
  );
}

export const legend = (classes) =>
  classes.length <= 16 &&
  h(
    "div",
    { class: "legend" },
    classes.map((name, k) =>
      h("span", { class: "key" }, h("i", { css: { background: labelColour(k, classes.length) } }), name),
    ),
  );
