// All runs: how far each is, how well its methods do; to search, sort, filter, and to tick for a comparison.
import { command } from "./command.js";
import { choice, h, problem, put, unseen } from "./dom.js";
import { count, day, NONE, plural } from "./format.js";
import { common, wording } from "./metric.js";
import { pill, progress } from "./overview.js";
import { sortable } from "./table.js";

const ticked = new Set();
const measure = (run) => run.metric ?? run.task?.metrics[0];
// What the best of its methods has; null if none has anything.
function best(run) {
  const { merit } = wording(measure(run));
  const known = Object.values(run.methods ?? {}).filter((v) => v !== null);
  return known.length ? known.reduce((a, b) => (merit(a) >= merit(b) ? a : b)) : null;
}
const state = (run) => (run.quiet ? "quiet" : run.state);
const units = (run) => (run.kind === "board" ? "columns" : "iterations");
// The folder of a run; that of a sweep's jobs is the sweep's.
const folder = (run) =>
  run.id
    .split("/")
    .slice(0, -1)
    .join("/")
    .replace(/(^|\/)jobs$/, "") || "no folder of their own";
const GROUPS = {
  experiment: { text: "experiment", of: (run) => run.name ?? "unknown" },
  folder: { text: "folder or sweep", of: folder },
};
const VIEW = { run: "overview", board: "board", swarm: "swarm" };
const KIND = { board: () => "leaderboard", swarm: (run) => `${plural(run.clients, "peer")}, live` };

export async function runs(server, link, query, remember) {
  const node = h("div", { class: "view runs" });
  let found = [],
    root = "";
  const compare = h("a", { class: "button" }, "Compare"),
    tally = h("span", { class: "note" });
  const search = h("input", {
    type: "search",
    placeholder: "search runs and methods",
    value: query.search ?? "",
    "aria-label": "search",
    oninput: () => settle({ search: search.value }),
  });
  const filter = h("span", { class: "tools" }),
    table = h("div", { class: "card runs-table" });
  const head = h("div", { class: "title" }, h("h1", {}, "Runs"), tally, compare);
  const tools = h("div", { class: "tools" }, search, filter);
  let columns = columnsOf(null);
  const sorting = { by: -1, down: query.down === "on" };
  await load();
  return { node, refresh: load, keys: { "/": () => search.focus() } };

  async function load() {
    ({ root, runs: found } = await server.listing());
    columns = columnsOf(
      common(found.filter(({ methods, kind }) => methods && kind !== "board").map(measure)),
    );
    if (sorting.by < 0) sorting.by = columns.findIndex((c) => c.value && c.title === query.sort);
    for (const id of ticked) if (!found.some((run) => run.id === id)) ticked.delete(id);
    if (!found.length) put(node, nothing(root));
    else {
      if (!node.contains(table)) put(node, head, tools, table);
      draw();
    }
  }

  function settle(change) {
    Object.assign(query, change);
    remember(change);
    draw();
  }

  function draw() {
    const states = [...new Set(found.map(state))].sort(),
      words = (query.search ?? "").toLowerCase().split(/\s+/);
    const said = (run) => [run.id, run.name, ...Object.keys(run.methods ?? {})].join(" ").toLowerCase();
    const shown = found.filter(
      (run) =>
        (!query.state || state(run) === query.state) && words.every((word) => said(run).includes(word)),
    );
    const some = shown.length < found.length ? `${count(shown.length)} of ` : "";
    tally.textContent = `${some}${count(found.length)} in ${root}`;
    put(
      filter,
      choice("state", [["", "all"], ...states.map((s) => [s, s])], query.state ?? "", (chosen) =>
        settle({ state: chosen }),
      ),
      choice(
        "grouped by",
        [["", "nothing"], ...Object.entries(GROUPS).map(([key, { text }]) => [key, text])],
        query.group ?? "",
        (chosen) => settle({ group: chosen }),
      ),
    );
    put(
      table,
      shown.length
        ? sortable(columns, shown, sorting, {
            csv: "runs",
            group: Object.hasOwn(GROUPS, query.group ?? "") && { of: GROUPS[query.group].of, head: members },
            sorted: () => remember({ sort: columns[sorting.by].title, down: sorting.down ? "on" : null }),
          })
        : h("p", { class: "note" }, "No run is like that."),
    );
    update();
  }

  function columnsOf(said) {
    return [
      { title: "", head: unseen("span", "compare"), cell: tick },
      { title: "run", left: true, first: "asc", value: (run) => run.id, cell: name },
      { title: "state", left: true, first: "asc", value: state, cell: pill },
      {
        title: "progress",
        left: true,
        value: (run) => (run.iterations ? run.t / run.iterations : null),
        cell: (run) =>
          run.error
            ? NONE
            : run.state === "done"
              ? `${count(run.iterations)} ${units(run)}`
              : [progress(run, units(run)), run.continue_with && command(run.continue_with)],
      },
      {
        title: said ? said.words("personal") : "personal result",
        note: "mean over clients and seeds; the best methods first",
        left: true,
        first: said?.first,
        value: best,
        cell: (run) => (run.error ? NONE : run.kind === "board" ? leaders(run.ranks) : scores(run, !said)),
      },
      {
        title: "methods",
        value: (run) => Object.keys(run.methods ?? {}).length,
        cell: (run) => count(Object.keys(run.methods ?? {}).length),
      },
      { title: "clients", value: (run) => run.clients, cell: (run) => count(run.clients) },
      { title: "seeds", value: (run) => run.seeds, cell: (run) => count(run.seeds) },
      { title: "started (UTC)", left: true, value: (run) => run.date ?? null, cell: (run) => day(run.date) },
    ];
  }

  function members(title, those) {
    const ids = those.filter((run) => !run.error && run.kind === "run").map(({ id }) => id);
    return [
      h("b", {}, title),
      " ",
      h("small", {}, plural(those.length, "run")),
      " ",
      ids.length > 1 && h("a", { href: link.compare(ids), "aria-label": `compare ${title}` }, "compare them"),
    ];
  }

  function tick(run) {
    return h("input", {
      type: "checkbox",
      checked: ticked.has(run.id),
      "aria-label": `compare ${run.id}`,
      disabled: Boolean(run.error) || run.kind !== "run",
      onchange: (event) => {
        ticked[event.target.checked ? "add" : "delete"](run.id);
        update();
      },
    });
  }

  function name(run) {
    return h(
      "div",
      { class: "run-name" },
      h("a", { href: link.run(run.id, VIEW[run.kind]) }, run.id),
      run.error
        ? h("small", { class: "bad" }, run.error)
        : run.kind in KIND && h("small", {}, KIND[run.kind](run)),
    );
  }

  function update() {
    compare.textContent = ticked.size ? `Compare ${ticked.size}` : "Compare";
    compare.toggleAttribute("aria-disabled", ticked.size < 2);
    if (ticked.size < 2) compare.removeAttribute("href");
    else compare.href = link.compare([...ticked]);
  }
}

const nothing = (root) =>
  h(
    "section",
    { class: "empty" },
    h("h1", {}, "No runs yet"),
    h(
      "p",
      {},
      "There is no run folder in ",
      h("code", {}, root),
      ". Make one, and it appears here while it runs:",
    ),
    h("pre", {}, "coterie run quickstart"),
    h("p", { class: "note" }, "Runs elsewhere: ", h("code", {}, "coterie dashboard FOLDER")),
  );

// named: several metrics stand in one column, so each is named.
function scores(run, named) {
  const { merit, full, title } = wording(measure(run));
  const known = Object.entries(run.methods).sort(([, a], [, b]) => merit(b) - merit(a)),
    shown = known.slice(0, 4);
  if (!known.length) return h("span", { class: "note" }, "not evaluated yet");
  return h(
    "div",
    { class: "scores" },
    named && h("span", { class: "note" }, title()),
    shown.map(([name, v], k) => h("span", { class: k ? "" : "best" }, `${name} `, h("b", {}, full(v)))),
    known.length > shown.length && h("span", { class: "note" }, `and ${known.length - shown.length} more`),
  );
}

function leaders(ranks) {
  const known = Object.entries(ranks);
  if (!known.length) return h("span", { class: "note" }, "not ranked yet");
  return h(
    "div",
    { class: "scores" },
    h("span", { class: "note" }, "mean rank"),
    known.map(([name, v], k) => h("span", { class: k ? "" : "best" }, `${name} `, h("b", {}, v.toFixed(1)))),
  );
}

export const missing = (error) => problem("This cannot be shown", error.message);
