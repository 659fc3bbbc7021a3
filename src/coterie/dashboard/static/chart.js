// Lines over iterations, with bands, names beside their ends, and a readout that follows pointer or keys.
import {
  band,
  ends,
  freest,
  last,
  logTicks,
  nearby,
  nearest,
  prepared,
  range,
  real,
  stroke,
  ticks,
  value,
} from "./curve.js";
import { fitted, h, hideTip, put, showTip, svg } from "./dom.js";
import { csvButton, painted, pngButton } from "./download.js";
import { count } from "./format.js";
import { sample } from "./viewing.js";

const LEFT = 46,
  TOP = 8,
  BOTTOM = 26,
  SAMPLE = 16,
  LISTED = 12,
  CROWD = 10;
const PLAIN = { log: false, smooth: 1, from: null, to: null, zoom: null, kind: () => "named" };

// lines: [{name, colour, dash, named, t, y, low, high, step}]; see: how to look at them, from `viewing`.
export function chart({
  title,
  note,
  lines,
  format,
  tick = format,
  length,
  closing,
  mark,
  height = 230,
  from = null,
  names = true,
  see = PLAIN,
  banded = "",
}) {
  const drawing = svg("svg", { class: "chart", height, tabindex: 0, role: "img", "aria-label": title });
  const legend = h("div", { class: "legend" }),
    remark = h("p", { class: "note" });
  const known = lines.filter((line) => line.t.length);
  const figure = h(
    "figure",
    { class: "card" },
    h(
      "figcaption",
      {},
      h("h3", {}, title),
      h(
        "span",
        { class: "gets" },
        csvButton(title, table),
        pngButton(title, () => painted(title, drawing, keys())),
      ),
      remark,
    ),
    drawing,
    legend,
  );
  fitted(figure, draw);
  return figure;

  function table() {
    return [
      ["name", "iteration", "value", "low", "high"],
      ...known.flatMap((line) =>
        line.t.map((t, k) => [line.name, t, line.y[k], line.low?.[k] ?? null, line.high?.[k] ?? null]),
      ),
    ];
  }

  function keys() {
    return [...legend.querySelectorAll(".key")];
  }

  function draw() {
    const seen = known.map((line) => prepared(line, see)).filter((line) => line.t.length);
    const named = seen.filter((line) => line.kind === "named"),
      grey = seen.filter((line) => line.kind === "grey");
    const others = grey.length ? ` Grey: ${count(grey.length)} other methods.` : "";
    const smoothed = see.smooth > 1 ? ` Smoothed: mean of ${see.smooth} evaluations.` : "";
    const bands = !grey.length && named.some((line) => line.low);
    const more = `${others}${smoothed}`;
    remark.textContent = `${note}${bands ? `; ${banded}` : ""}${more ? "." : ""}${more}`;
    const inner = figure.clientWidth - 2 * parseFloat(getComputedStyle(figure).paddingLeft);
    const said = (line) => SAMPLE + lettered(line.name, 640) + 6 + lettered(format(last(line.y)), 500);
    const wide = Math.max(0, ...named.map(said));
    const beside = names && named.length <= CROWD && inner > 430 && wide < 0.4 * inner;
    const high = height - BOTTOM;
    const [low, top] = range(seen, from, see.log);
    const start = see.from ?? 0;
    const end = Math.max(see.to ?? Math.max(length ?? 0, ...known.map((l) => last(l.t)), 1), start + 1);
    const latest = Math.max(start, ...named.map((line) => last(line.t)));
    // Of a run that is not finished, the names stand where nothing has been drawn yet.
    const room = inner - LEFT,
      needed = beside ? (room - wide - 18) / ((latest - start) / (end - start)) : room;
    const right = room - Math.min(room - 12, needed);
    const x = (t) => LEFT + ((inner - LEFT - right) * (t - start)) / (end - start);
    const scaled = see.log ? Math.log10 : (v) => v;
    const y = (v) => high - ((high - TOP) * (scaled(v) - scaled(low))) / (scaled(top) - scaled(low));
    drawing.setAttribute("viewBox", `0 0 ${inner} ${height}`);
    drawing.setAttribute("width", inner);
    drawing.setAttribute(
      "aria-label",
      `${title}: ${named.map((l) => `${l.name} ${format(last(l.y))}`).join(", ")}`,
    );
    const cursor = svg("g", { class: "cursor" });
    const alone = closing < end && Math.max(closing, start);
    put(
      drawing,
      alone !== false &&
        alone !== undefined && [
          svg("rect", {
            class: "closing",
            x: x(alone),
            y: TOP,
            width: x(end) - x(alone),
            height: high - TOP,
          }),
          svg(
            "text",
            {
              class: "aside",
              "text-anchor": "end",
              x: x(end) - 4,
              y: freest(
                [high - 6, TOP + 12],
                seen
                  .map((line) => last(line.y))
                  .filter(real)
                  .map(y),
              ),
            },
            "alone",
          ),
        ],
      (see.log ? logTicks : ticks)(low, top, Math.max(2, Math.floor(height / 40))).map((v) => [
        svg("line", { class: "rule", x1: LEFT, x2: x(end), y1: y(v), y2: y(v) }),
        svg("text", { class: "tick", x: LEFT - 7, y: y(v) + 3.5, "text-anchor": "end" }, tick(v)),
      ]),
      svg("text", { class: "tick", x: LEFT, y: height - 8 }, `iteration ${count(start)}`),
      ticks(start, end, Math.max(2, Math.floor(inner / 110)))
        .filter((t) => x(t) - LEFT > 100)
        .map((t) =>
          svg(
            "text",
            {
              class: "tick",
              x: Math.min(x(t), inner - lettered(count(t), 400) / 2),
              y: height - 8,
              "text-anchor": "middle",
            },
            count(t),
          ),
        ),
      mark !== undefined &&
        mark !== null &&
        mark >= start &&
        mark <= end &&
        svg("line", { class: "mark", x1: x(mark), x2: x(mark), y1: TOP, y2: high }),
      grey.map((line) => svg("path", { class: "line other", d: stroke(line, x, y) })),
      bands &&
        named.map(
          (line) =>
            line.low &&
            svg("path", {
              class: "band",
              d: band(line, x, (v) => Math.min(high, y(v))),
              css: { fill: line.colour },
            }),
        ),
      named.map((line) =>
        svg("path", {
          class: "line",
          d: stroke(line, x, y),
          css: { stroke: line.colour, "stroke-dasharray": line.dash || "none" },
        }),
      ),
      named.map(
        (line) =>
          line.t.length === 1 &&
          real(line.y[0]) &&
          svg("circle", { r: 3, cx: x(line.t[0]), cy: y(line.y[0]), css: { fill: line.colour } }),
      ),
      beside && ends(named, y, TOP, high).map(([line, at]) => ending(line, at, x(latest) + 14, x, y)),
      cursor,
    );
    if (!known.length) put(legend, h("p", { class: "note" }, "Nothing has been recorded yet."));
    else
      put(legend, names && !beside && named.map((line) => key(line, h("b", {}, ` ${format(last(line.y))}`))));
    follow({ seen, named, grey, cursor, x, y, start, end, inner, right, high });
  }

  // The name of a line at the height `at` and from `left` on, tied to the end of the line by a hair of no
  // colour: in its own it would read as a forecast.
  function ending(line, at, left, x, y) {
    return [
      svg("path", { class: "leader", d: `M${x(last(line.t)) + 2} ${y(last(line.y))}L${left - 2} ${at}` }),
      svg("line", {
        class: "line",
        x1: left,
        x2: left + SAMPLE - 5,
        y1: at,
        y2: at,
        css: { stroke: line.colour, "stroke-dasharray": line.dash || "none" },
      }),
      svg("text", { class: "name", x: left + SAMPLE, y: at + 4 }, line.name),
      svg(
        "text",
        { class: "value", x: left + SAMPLE + lettered(line.name, 640) + 6, y: at + 4 },
        format(last(line.y)),
      ),
    ];
  }

  function follow({ seen, named, grey, cursor, x, y, start, end, inner, right, high }) {
    const moments = [...new Set(seen.flatMap((l) => l.t))].sort((a, b) => a - b);
    const time = (event) =>
      start +
      ((end - start) * (event.clientX - drawing.getBoundingClientRect().left - LEFT)) /
        (inner - LEFT - right);
    let at = moments.length - 1,
      begun = null;
    const read = (k, px, py, pointed) => {
      at = Math.min(moments.length - 1, Math.max(0, k));
      const t = moments[at];
      const near = [...named, ...nearby(grey, t, pointed, y)]
        .map((line) => [line, value(line, t)])
        .filter(([, v]) => real(v))
        .sort((a, b) => b[1] - a[1]);
      put(
        cursor,
        svg("line", { x1: x(t), x2: x(t), y1: TOP, y2: high }),
        near.map(([line, v]) => svg("circle", { r: 3.2, cx: x(t), cy: y(v), css: { fill: line.colour } })),
      );
      showTip(
        px,
        py,
        h("b", {}, `iteration ${count(t)}`),
        ...near
          .slice(0, LISTED)
          .map(([line, v]) =>
            h(
              "span",
              {},
              h("i", { class: "dot", css: { background: line.colour } }),
              `${line.name}  `,
              h("b", {}, format(v)),
            ),
          ),
        near.length > LISTED && `and ${near.length - LISTED} more`,
      );
    };
    drawing.onpointerdown = (event) => {
      if (!see.zoom || event.pointerType !== "mouse" || event.button) return;
      begun = event.clientX;
      drawing.setPointerCapture(event.pointerId);
    };
    drawing.onpointermove = (event) => {
      if (!moments.length) return;
      const box = drawing.getBoundingClientRect();
      if (begun !== null && Math.abs(event.clientX - begun) > 8) {
        hideTip();
        const [a, b] = [begun, event.clientX].map((px) => px - box.left).sort((p, q) => p - q);
        put(cursor, svg("rect", { class: "zooming", x: a, y: TOP, width: b - a, height: high - TOP }));
      } else read(nearest(moments, time(event)), event.clientX, event.clientY, event.clientY - box.top);
    };
    drawing.onpointerup = (event) => {
      const moved = begun !== null && Math.abs(event.clientX - begun) > 8;
      const [a, b] = [begun, event.clientX]
        .map((clientX) => Math.round(time({ clientX })))
        .sort((p, q) => p - q);
      begun = null;
      if (moved) see.zoom([Math.max(0, a), Math.max(1, b)]);
    };
    drawing.ondblclick = () => see.zoom?.(null);
    drawing.onpointerleave = drawing.onblur = () => {
      put(cursor);
      hideTip();
    };
    drawing.onkeydown = (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || !moments.length) return;
      event.preventDefault();
      const box = drawing.getBoundingClientRect();
      read(at + by, box.left + x(moments[Math.min(moments.length - 1, Math.max(0, at + by))]), box.top + 40);
    };
  }
}

export const key = (line, ...more) => h("span", { class: "key" }, sample(line), line.name, more);

const lettered = (() => {
  const pen = document.createElement("canvas").getContext("2d"),
    known = new Map();
  return (text, weight) => {
    if (!known.has(`${weight}${text}`)) {
      pen.font = `${weight} 12px ${getComputedStyle(document.body).fontFamily}`;
      known.set(`${weight}${text}`, pen.measureText(text).width);
    }
    return known.get(`${weight}${text}`);
  };
})();
