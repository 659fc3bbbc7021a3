// A run as a whole: status, curves, result table, parameters and environment.
import { chart } from "./chart.js";
import { command } from "./command.js";
import { h, problem, put } from "./dom.js";
import { amount, bytes, count, day, duration, percent, plural, roundBytes } from "./format.js";
import { gains } from "./gains.js";
import { wording } from "./metric.js";
import { looks } from "./palette.js";
import { sortable } from "./table.js";
import { viewing } from "./viewing.js";

// What is drawn over time: score, title, note, format, ticks.
export function curvesOf({ metric, tested }) {
  const { title, full, tick, direction } = wording(metric);
  const note = (kind) => [tested?.[kind], direction].filter(Boolean).join("; ");
  return [
    ["personal", title("personal"), note("personal"), full, tick],
    ["global", title("global"), note("global"), full, tick],
    ["loss", "Training loss", "mean since the evaluation before", amount, amount],
    ["bytes", "Data sent", "by all clients together, so far", bytes, roundBytes],
  ];
}

export async function overview(source, query = {}, remember = null, link = null) {
  const sorting = {};
  let run, curves;
  const joined = gains(source, query, remember, link);
  const see = viewing(query, remember, draw);
  const top = h("div", { class: "view" }),
    reading = h("p", { class: "reading", hidden: true }),
    charts = h("section", { class: "cards two" }),
    made = h("section");
  const node = h("div", { class: "view overview" }, top, joined.node, see.node, charts, made);
  see.node.hidden = true;
  run = await source.get("overview");
  begin();
  put(made, settings(source, run));
  setTimeout(() => node.isConnected && rest().catch(failed), 0); // what takes longer to read comes when it is there
  return { node, refresh: load, keys: {} };

  async function load() {
    run = await source.get("overview");
    begin();
    await rest();
  }

  function begin() {
    put(top, head(run), reading, results(run, sorting));
  }

  function failed(error) {
    if (node.isConnected) put(charts, problem("The curves cannot be shown", error.message));
  }

  async function rest() {
    await joined.load(run.rows);
    curves = await source.get("curves");
    reading.hidden = curves.complete >= 1;
    reading.textContent = `Reading the evaluations: ${percent(curves.complete, 0)} so far …`;
    see.node.hidden = !Object.keys(curves.methods).length;
    see.show(drawn("personal"), run.length);
    draw();
    if (curves.complete < 1 || run.complete < 1)
      setTimeout(() => node.isConnected && load().catch(failed), 0);
  }

  function drawn(score) {
    const seen = looks(run.rows);
    return Object.entries(curves.methods).map(([name, scores]) => {
      const { t, mean, std } = scores[score],
        banded = std.some((v) => v !== null);
      const edge = (sign) => mean.map((m, k) => (m === null || std[k] === null ? null : m + sign * std[k]));
      return {
        name,
        ...seen[name],
        t,
        y: mean,
        low: banded ? edge(-1) : null,
        high: banded ? edge(1) : null,
      };
    });
  }

  function draw() {
    put(
      charts,
      curvesOf(run).map(([score, title, note, format, tick]) =>
        chart({
          title,
          note,
          banded: "band: ± one standard deviation over seeds",
          see,
          format,
          tick,
          length: run.length,
          closing: run.closing,
          from: score === "bytes" ? 0 : null,
          lines: drawn(score),
        }),
      ),
    );
  }
}

export function pill(run) {
  return h("span", { class: `pill ${run.state}` }, run.quiet ? "quiet" : run.state);
}

export function progress(run, units = "iterations") {
  if (run.iterations === null) return h("span", {}, `${count(run.t)} iterations, without end`);
  const share = run.iterations ? run.t / run.iterations : 0;
  return h(
    "span",
    { class: "progress" },
    h("progress", { max: 1, value: share, "aria-label": "progress" }),
    h(
      "span",
      {},
      `${count(run.t)} of ${count(run.iterations)} ${units}`,
      run.left !== null && run.left !== undefined && !run.quiet ? `, about ${duration(run.left)} left` : "",
    ),
  );
}

function head(run) {
  const done =
    run.state === "done" && h("span", {}, `${count(run.iterations)} iterations in ${duration(run.seconds)}`);
  return h(
    "section",
    { class: "facts-row" },
    pill(run),
    done || progress(run),
    h("span", {}, plural(run.clients, "client")),
    run.groups > 1 && h("span", {}, plural(run.groups, "group")),
    h("span", {}, plural(run.seeds, "seed")),
    h("span", {}, day(run.date), " UTC"),
    run.quiet &&
      h(
        "p",
        { class: "hint" },
        `No sign of life for ${duration(run.quiet)}.`,
        run.resume_command && [" If its process was killed, continue with ", command(run.resume_command)],
      ),
    run.continue_with && h("p", { class: "hint" }, "Continue it with ", command(run.continue_with)),
  );
}

export const dot = (colour) => h("i", { class: "dot", css: { background: colour } });

function results(run, sorting) {
  const seen = looks(run.rows),
    rows = Object.keys(run.methods).map((name, k) => ({ name, k }));
  if (!rows.length) {
    return h(
      "section",
      { class: "card" },
      h("h3", {}, "Results"),
      h("p", { class: "note" }, "They appear after the first evaluation."),
    );
  }
  return h(
    "section",
    { class: "card results" },
    h("h3", {}, "Results"),
    sortable(
      [
        {
          title: "method",
          left: true,
          first: "asc",
          value: (row) => row.name,
          cell: (row) => [dot(seen[row.name]?.colour ?? "var(--soft)"), row.name],
        },
        ...Object.entries(run.table).map(([title, cells]) => ({
          title,
          first: run.ascending.includes(title) ? "asc" : "desc",
          value: (row) => cells[row.k].value,
          cell: (row) => (cells[row.k].best ? h("b", {}, cells[row.k].text) : cells[row.k].text),
        })),
      ],
      rows,
      sorting,
      { csv: `results ${run.name}` },
    ),
    h("p", { class: "note" }, run.caption),
  );
}

function settings(source, run) {
  const inner = h("div"),
    all = flat(run.parameters);
  const only = h("input", { type: "checkbox", checked: true, onchange: draw });
  let changed = null;
  async function draw() {
    const asked = changed === null && (await source.get("parameters").catch(() => null));
    changed ??= new Set(asked?.changed ?? all.map(([key]) => key)); // where that cannot be said, all
    put(inner, list(all.filter(([key]) => !only.checked || changed.has(key))));
  }
  return h(
    "div",
    { class: "cards two" },
    h(
      "details",
      { class: "card", id: "parameters", ontoggle: draw },
      h("summary", {}, "Parameters"),
      h("label", { class: "tick" }, only, "only what is not default"),
      inner,
    ),
    h(
      "details",
      { class: "card", id: "environment" },
      h("summary", {}, "Environment"),
      list(flat(run.environment)),
    ),
  );
}

export const list = (pairs) =>
  h(
    "dl",
    {},
    pairs.map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]),
  );

// Nested tables as pairs of a dotted path and a text.
export function flat(values, prefix = "") {
  return Object.entries(values).flatMap(([key, value]) => {
    const table =
      value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length;
    return table
      ? flat(value, `${prefix}${key}.`)
      : [[prefix + key, typeof value === "string" ? value : JSON.stringify(value)]];
  });
}
