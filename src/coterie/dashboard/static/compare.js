// Several runs side by side: one table, how their settings differ, and their curves in one picture.
import { chart } from "./chart.js";
import { choice, h, put, unseen } from "./dom.js";
import { csvButton } from "./download.js";
import { wording } from "./metric.js";
import { curvesOf, dot, flat } from "./overview.js";
import { DASHES, looks, methodColour } from "./palette.js";
import { sortable } from "./table.js";
import { viewing } from "./viewing.js";

const SCORES = ["personal", "global", "loss", "bytes"];

const lowered = (text) => text.replace(/^./, (letter) => letter.toLowerCase());

const told = ({ name, ...options }) =>
  [name, ...flat(options).map(([key, value]) => `${key} ${value}`)].join(", ");

export async function compare(sources, link, query, remember) {
  const node = h("div", { class: "view compare" });
  const state = {
    score: SCORES.includes(query.score) ? query.score : "personal",
    method: query.method ?? "",
  };
  const sorting = {},
    differing = {};
  let found;
  const see = viewing(query, remember, () => picture());
  const above = h("div", { class: "view" }),
    tools = h("div", { class: "tools" }),
    curves = h("div");
  put(node, above, tools, h("section", { class: "card" }, curves, see.node));
  await load();
  return { node, refresh: load, keys: {} };

  async function load() {
    found = await Promise.all(
      sources.map(async (source) => {
        const [run, given] = await Promise.all([source.get("overview"), source.get("curves")]);
        return { id: source.id, run, curves: given };
      }),
    );
    draw();
  }

  function settle(change) {
    Object.assign(state, change);
    remember(change);
    draw();
  }

  function draw() {
    const names = [...new Set(found.flatMap(({ run }) => Object.keys(run.methods)))];
    put(
      above,
      h("div", { class: "title" }, h("h1", {}, `${found.length} runs compared`)),
      unseen("h2", "Comparison"),
      results(),
      differences(),
    );
    put(
      tools,
      choice(
        "curve of",
        curvesOf(found[0].run).map(([k, text]) => [k, lowered(text)]),
        state.score,
        (score) => settle({ score }),
      ),
      choice("method", [["", "all"], ...names.map((n) => [n, n])], state.method, (method) =>
        settle({ method }),
      ),
    );
    picture();
  }

  function results() {
    const rows = found.flatMap(({ id, run }) =>
      Object.keys(run.methods).map((name, k) => ({ id, name, k, run })),
    );
    const titles = [...new Set(found.flatMap(({ run }) => Object.keys(run.table)))];
    const cell = (row, wanted) => row.run.table[wanted]?.[row.k];
    return h(
      "section",
      { class: "card results" },
      h("h3", {}, "Results"),
      sortable(
        [
          {
            title: "run",
            left: true,
            first: "asc",
            value: (row) => row.id,
            cell: (row) => h("a", { href: link.run(row.id) }, row.id),
          },
          {
            title: "method",
            left: true,
            first: "asc",
            value: (row) => row.name,
            cell: (row) => [dot(looks(row.run.rows)[row.name]?.colour ?? "var(--soft)"), row.name],
          },
          ...titles.map((wanted) => ({
            title: wanted,
            value: (row) => cell(row, wanted)?.value ?? null,
            cell: (row) => {
              const c = cell(row, wanted);
              return c?.best ? h("b", {}, c.text) : (c?.text ?? "–");
            },
          })),
        ],
        rows,
        sorting,
        { csv: "compared" },
      ),
      h("p", { class: "note" }, "Bold: the best of its run."),
    );
  }

  // The parameters that are not the same in all runs, one row each; all that a method was given is one row.
  function differences() {
    const given = found.map(
      ({
        run: {
          parameters: { methods, ...others },
        },
      }) =>
        new Map([
          ...flat(others),
          ...Object.entries(methods).map(([label, options]) => [`methods.${label}`, told(options)]),
        ]),
    );
    const paths = [...new Set(given.flatMap((one) => [...one.keys()]))].filter(
      (path) => path !== "name" && new Set(given.map((one) => one.get(path))).size > 1,
    );
    const table = sortable(
      [
        { title: "parameter", left: true, first: "asc", value: (path) => path, cell: (path) => path },
        ...found.map(({ id }, k) => ({
          title: id,
          left: true,
          first: "asc",
          value: (path) => given[k].get(path) ?? null,
          cell: (path) => h("span", { class: "said" }, given[k].get(path) ?? "–"),
        })),
      ],
      paths,
      differing,
    );
    const get = paths.length > 0 && h("span", { class: "gets" }, csvButton("differences", table.file));
    return h(
      "figure",
      { class: "card differences" },
      h("figcaption", {}, h("h3", {}, "What differs"), get),
      paths.length
        ? h("div", { class: "tall" }, table)
        : h("p", { class: "note" }, "Nothing: these runs have the same parameters."),
    );
  }

  // A method keeps its colour; its lines in several runs or settings differ in dashes, then in shade.
  function picture() {
    const [, title, , format, tick] = curvesOf(found[0].run).find(([score]) => score === state.score),
      seen = new Map();
    const { same, direction } = wording(found[0].run.metric);
    const measured = state.score === "personal" || state.score === "global";
    const alike = found.filter(({ run }) => !measured || same(run.metric));
    const notes = [
      "one colour for each method; the runs differ in the kind of line",
      measured && direction,
      alike.length < found.length && "without the runs that are measured otherwise",
    ];
    const lines = alike.flatMap(({ id, run, curves: given }, place) =>
      run.rows
        .filter(({ name }) => given.methods[name] && (!state.method || name === state.method))
        .map(({ name, hue, named }) => {
          const { t, mean } = given.methods[name][state.score],
            k = Math.max(place, seen.get(hue) ?? 0);
          seen.set(hue, k + 1);
          return {
            name: `${id} · ${name}`,
            colour: methodColour(hue, (k >> 2) % 2),
            dash: DASHES[k % 4],
            named: named || Boolean(state.method),
            t,
            y: mean,
          };
        }),
    );
    const length = Math.max(...found.map(({ run }) => run.length));
    see.show(lines, length);
    put(
      curves,
      chart({
        title,
        note: notes.filter(Boolean).join("; "),
        lines,
        format,
        tick,
        length,
        height: 340,
        names: false,
        see,
        from: state.score === "bytes" ? 0 : null,
      }),
    );
  }
}
