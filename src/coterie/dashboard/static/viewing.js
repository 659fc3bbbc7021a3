// How curves are looked at: which are shown, how smooth, on what scale, over which iterations. The charts of
// a page share it, and it is kept in the address.
import { choice, h, put, svg } from "./dom.js";
import { count } from "./format.js";

const SMOOTH = [
  [1, "none"],
  [5, "5 evaluations"],
  [15, "15 evaluations"],
];
// Names that were chosen, as the address keeps them.
export const names = (text) => {
  try {
    return new Set(JSON.parse(text));
  } catch {
    return new Set();
  }
};
export const text = (set) => (set.size ? JSON.stringify([...set]) : null);
const number = (given) =>
  given === undefined || given === "" || Number.isNaN(Number(given)) ? null : Number(given);

// A line and its name, as in every legend.
export const sample = (line) =>
  svg(
    "svg",
    { width: 18, height: 8 },
    svg("line", {
      class: "line",
      x1: 1,
      x2: 17,
      y1: 4,
      y2: 4,
      css: { stroke: line.colour, "stroke-dasharray": line.dash || "none" },
    }),
  );

// lines: [{name, colour, dash, named}]; redraw() is called whenever something has been chosen.
export function viewing(query, remember, redraw) {
  const see = {
    hidden: names(query.hidden),
    shown: names(query.shown),
    others: query.others !== "off",
    log: query.log === "on",
    smooth: number(query.smooth) ?? 1,
    from: number(query.from),
    to: number(query.to),
    node: null,
    kind,
    zoom,
    show,
  };
  let lines = [],
    length = 0;
  const legend = h("div", { class: "legend" }),
    more = h("div", { class: "legend" });
  const rest = h("details", { class: "others" }, h("summary"), more);
  const edge = (key, label) =>
    h("input", {
      type: "number",
      min: 0,
      "aria-label": label,
      onchange: (event) => {
        see[key] = number(event.target.value);
        settle();
      },
    });
  const from = edge("from", "from iteration"),
    to = edge("to", "to iteration");
  const whole = h("button", { type: "button", class: "get", onclick: () => zoom(null) }, "whole run");
  see.node = h(
    "div",
    { class: "card viewing", role: "group", "aria-label": "how the curves are drawn" },
    legend,
    rest,
    h(
      "div",
      { class: "tools" },
      choice("smoothing", SMOOTH, see.smooth, (value) => {
        see.smooth = Number(value);
        settle();
      }),
      h(
        "label",
        { class: "tick" },
        h("input", {
          type: "checkbox",
          checked: see.log,
          onchange: (event) => {
            see.log = event.target.checked;
            settle();
          },
        }),
        "log scale",
      ),
      h("span", { class: "choice" }, "iterations", from, "to", to, whole),
      h("span", { class: "note" }, "drag across a chart to zoom"),
    ),
  );
  return see;

  function kind(line) {
    if (see.hidden.has(line.name)) return "hidden";
    return line.named || see.shown.has(line.name) ? "named" : see.others ? "grey" : "hidden";
  }

  function zoom(range) {
    [see.from, see.to] = range ?? [null, null];
    settle();
  }

  function show(next, end) {
    [lines, length] = [next, end];
    draw();
  }

  function settle() {
    if (see.from !== null && see.to !== null && see.from >= see.to) [see.from, see.to] = [null, null];
    remember?.({
      hidden: text(see.hidden),
      shown: text(see.shown),
      others: see.others ? null : "off",
      log: see.log ? "on" : null,
      smooth: see.smooth > 1 ? see.smooth : null,
      from: see.from,
      to: see.to,
    });
    draw();
    redraw();
  }

  function toggle(line) {
    if (kind(line) === "named") {
      see.hidden.add(line.name);
      see.shown.delete(line.name);
    } else {
      see.hidden.delete(line.name);
      if (!line.named) see.shown.add(line.name);
    }
    settle();
  }

  function draw() {
    const chip = (line) =>
      h(
        "button",
        {
          type: "button",
          class: "key",
          "aria-pressed": String(kind(line) === "named"),
          title: kind(line) === "named" ? "hide it" : "show it",
          onclick: () => toggle(line),
        },
        sample(line),
        line.name,
      );
    const [first, others] = [true, false].map((wanted) =>
      lines.filter((l) => wanted === Boolean(l.named || see.shown.has(l.name) || see.hidden.has(l.name))),
    );
    put(
      legend,
      first.map(chip),
      others.length > 0 &&
        h(
          "button",
          {
            type: "button",
            class: "key",
            "aria-pressed": String(see.others),
            onclick: () => {
              see.others = !see.others;
              settle();
            },
          },
          sample({ colour: "var(--faint)" }),
          `${count(others.length)} others`,
        ),
    );
    rest.hidden = !others.length;
    rest.firstChild.textContent = `Name more of the ${count(others.length)} others`;
    put(more, others.map(chip));
    for (const [input, value] of [
      [from, see.from ?? 0],
      [to, see.to ?? length],
    ]) {
      if (input !== document.activeElement) input.value = value; // not while somebody writes into it
    }
    whole.hidden = see.from === null && see.to === null;
  }
}
