// A run as a whole: status, curves, result table, parameters and environment.
import { chart } from "./chart.js";
import { h, put } from "./dom.js";
import { amount, bytes, count, day, duration, percent, plural, roundBytes, whole } from "./format.js";
import { looks } from "./palette.js";
import { sortable } from "./table.js";

const CHARTS = [
  ["personal", "Personal accuracy", "tested on the client's own label distribution", percent, whole],
  ["global", "Global accuracy", "tested on all labels equally often", percent, whole],
  ["loss", "Training loss", "mean since the evaluation before", amount, amount],
  ["bytes", "Data sent", "by all clients together, so far", bytes, roundBytes],
];

export async function overview(source) {
  const node = h("div", { class: "view overview" });
  const sorting = {};
  await load();
  return { node, refresh: load, keys: {} };

  async function load() {
    const [run, curves] = await Promise.all([source.get("overview"), source.get("curves")]);
    const open = [...node.querySelectorAll("details[open]")].map((d) => d.id);
    put(node, head(run), curves.complete < 1 && h("p", { class: "reading" }, `Reading the evaluations: ${percent(curves.complete, 0)} so far …`),
      results(run, sorting), charts(run, curves), settings(run));
    for (const id of open) node.querySelector(`#${id}`)?.setAttribute("open", "");
    if (curves.complete < 1 || run.complete < 1) setTimeout(() => node.isConnected && load(), 0);
  }
}

export function pill(run) {
  return h("span", { class: `pill ${run.state}` }, run.quiet ? "quiet" : run.state);
}

export function progress(run) {
  if (run.iterations === null) return h("span", {}, `${count(run.t)} iterations, without end`);
  const share = run.iterations ? run.t / run.iterations : 0;
  return h("span", { class: "progress" },
    h("progress", { max: 1, value: share, "aria-label": "progress" }),
    h("span", {}, `${count(run.t)} of ${count(run.iterations)} iterations`,
      run.left !== null && run.left !== undefined && !run.quiet ? `, about ${duration(run.left)} left` : ""));
}

function head(run) {
  return h("section", { class: "facts-row" },
    pill(run), run.state === "done" ? h("span", {}, `${count(run.iterations)} iterations in ${duration(run.seconds)}`) : progress(run),
    h("span", {}, plural(run.clients, "client")), run.groups > 1 && h("span", {}, plural(run.groups, "group")),
    h("span", {}, plural(run.seeds, "seed")), h("span", {}, day(run.date), " UTC"),
    run.quiet && h("p", { class: "hint" }, `No sign of life for ${duration(run.quiet)}.`, run.resuming && " If its process was killed, continue with ", run.resuming && h("code", {}, run.resuming)),
    run.way_on && h("p", { class: "hint" }, "Continue it with ", h("code", {}, run.way_on)));
}

export function results(run, sorting = {}) {
  const seen = looks(run.rows);
  const titles = Object.entries(run.table);
  const rows = Object.keys(run.methods).map((name, k) => ({ name, k }));
  if (!rows.length) return h("section", { class: "card" }, h("h3", {}, "Results"), h("p", { class: "note" }, "They appear after the first evaluation."));
  return h("section", { class: "card results" }, h("h3", {}, "Results"),
    sortable([
      { title: "method", left: true, first: "asc", value: (row) => row.name, cell: (row) => [h("i", { class: "dot", css: { background: seen[row.name]?.colour ?? "var(--soft)" } }), row.name] },
      ...titles.map(([title, cells]) => ({
        title, value: (row) => cells[row.k].value,
        cell: (row) => (cells[row.k].best ? h("b", {}, cells[row.k].text) : cells[row.k].text) })),
    ], rows, sorting),
    h("p", { class: "note" }, run.caption));
}

function charts(run, curves) {
  const seen = looks(run.rows);
  return h("section", { class: "cards two" }, CHARTS.map(([score, title, note, format, tick]) => chart({
    title, note: run.seeds > 1 ? `${note}; band: ± one standard deviation over seeds` : note,
    format, tick, length: run.length, closing: run.closing, from: score === "bytes" ? 0 : null,
    lines: Object.entries(curves.methods).map(([name, scores]) => {
      const { t, mean, std } = scores[score], banded = std.some((v) => v !== null);
      const edge = (sign) => mean.map((m, k) => (m === null || std[k] === null ? null : m + sign * std[k]));
      return { name, ...seen[name], t, y: mean, low: banded ? edge(-1) : null, high: banded ? edge(1) : null };
    }) })));
}

function settings(run) {
  return h("section", { class: "cards two" },
    h("details", { class: "card", id: "parameters" }, h("summary", {}, "Parameters"), list(flat(run.parameters))),
    h("details", { class: "card", id: "environment" }, h("summary", {}, "Environment"), list(flat(run.environment))));
}

const list = (pairs) => h("dl", {}, pairs.map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]));

function flat(values, prefix = "") {
  return Object.entries(values).flatMap(([key, value]) => {
    if (value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length) return flat(value, `${prefix}${key}.`);
    return [[prefix + key, typeof value === "string" ? value : JSON.stringify(value)]];
  });
}
