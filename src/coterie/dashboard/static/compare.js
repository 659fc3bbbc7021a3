// Several runs side by side: one table, and their curves in one picture.
import { chart, key } from "./chart.js";
import { choice, h, put } from "./dom.js";
import { amount, bytes, percent, roundBytes, whole } from "./format.js";
import { series } from "./palette.js";
import { sortable } from "./table.js";

const DASHES = ["", "6 4", "2 3", "8 3 2 3"];
const SCORES = { personal: ["personal accuracy", percent, whole], global: ["global accuracy", percent, whole], loss: ["training loss", amount, amount], bytes: ["data sent", bytes, roundBytes] };

export async function compare(sources, link) {
  const node = h("div", { class: "view compare" });
  const state = { score: "personal", method: "" };
  const sorting = {};
  await load();
  return { node, refresh: load, keys: {} };

  async function load() {
    const found = await Promise.all(sources.map(async (source) => ({ id: source.id, run: await source.get("overview"), curves: await source.get("curves") })));
    draw(found);
  }

  function draw(found) {
    const rows = found.flatMap(({ id, run }) => Object.keys(run.methods).map((name, k) => ({ id, name, k, run })));
    const titles = [...new Set(found.flatMap(({ run }) => Object.keys(run.table)))];
    const names = [...new Set(rows.map((row) => row.name))];
    const shown = names.filter((name) => !state.method || name === state.method);
    const [title, format, tick] = SCORES[state.score];
    const alone = new Set(found.flatMap(({ run }) => run.rows.filter((row) => row.alone).map((row) => row.name)));
    const hues = names.filter((name) => !alone.has(name));
    const colour = (name, r) => (state.method ? series(r) : alone.has(name) ? "var(--alone)" : series(hues.indexOf(name)));
    const lines = found.flatMap(({ id, curves }, r) => shown.filter((name) => curves.methods[name]).map((name) => {
      const { t, mean } = curves.methods[name][state.score];
      return { name: `${id} · ${name}`, colour: colour(name, r), dash: state.method ? "" : DASHES[r % DASHES.length], t, y: mean };
    }));
    const cell = (row, wanted) => row.run.table[wanted]?.[row.k];
    put(node,
      h("div", { class: "title" }, h("h1", {}, `${found.length} runs compared`)),
      h("section", { class: "card results" }, h("h3", {}, "Results"), sortable([
        { title: "run", left: true, first: "asc", value: (row) => row.id, cell: (row) => h("a", { href: link.run(row.id) }, row.id) },
        { title: "method", left: true, first: "asc", value: (row) => row.name, cell: (row) => row.name },
        ...titles.map((wanted) => ({ title: wanted, value: (row) => cell(row, wanted)?.value ?? null,
          cell: (row) => { const c = cell(row, wanted); return c?.best ? h("b", {}, c.text) : c?.text ?? "–"; } })),
      ], rows, sorting), h("p", { class: "note" }, "Bold: the best of its run. Runs may differ in data, clients and iterations; see their parameters.")),
      h("div", { class: "tools" },
        choice("curve of", Object.entries(SCORES).map(([k, [text]]) => [k, text]), state.score, (score) => { state.score = score; draw(found); }),
        choice("method", [["", "all"], ...names.map((n) => [n, n])], state.method, (method) => { state.method = method; draw(found); })),
      chart({ title: title[0].toUpperCase() + title.slice(1), note: state.method ? "one colour for each run" : "one colour for each method, one kind of line for each run", lines, format, tick, height: 340, names: false, from: state.score === "bytes" ? 0 : null }),
      h("div", { class: "legend" }, lines.map((line) => key(line))));
  }
}
