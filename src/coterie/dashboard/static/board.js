// A leaderboard: methods by columns, to sort and filter; the details of what is clicked; the diagram of ranks.
import { reachable, step } from "./cells.js";
import { details } from "./details.js";
import { command } from "./command.js";
import { choice, h, hideTip, put } from "./dom.js";
import { day, duration, plural } from "./format.js";
import { columns, entrants } from "./grid.js";
import { MEASURES } from "./measures.js";
import { common } from "./metric.js";
import { flat, list, pill, progress } from "./overview.js";
import { ranks } from "./ranks.js";
import { sortable } from "./table.js";
import { names, text } from "./viewing.js";

const SORT = "mean rank";
const explained = (said) =>
  `Bold: the best ${said ? said.words("personal") : "personal result"} of a column, and those that a paired t-test ` +
  `does not tell from it. ${said?.direction ? `${said.title()}: ${said.direction}. ` : ""}Hurt: ` +
  "clients below their Local twin; surely: with 95 % confidence. Best over rounds is for comparison with papers " +
  "that report it. A click on a column's head sorts by it; that and a click on a method or a cell show details.";

export async function board(source, query = {}, remember = null) {
  const state = {
    show: query.show in MEASURES ? query.show : "personal",
    off: names(query.off),
    search: query.search ?? "",
    references: query.references !== "off",
    sort: query.sort ?? SORT,
    down: query.down === "on",
    row: query.row ?? null,
    column: query.column ?? null,
  };
  let found,
    said, // how the cells are measured, null if in several ways
    offered;
  const search = h("input", {
    type: "search",
    placeholder: "search methods",
    value: state.search,
    "aria-label": "search",
    oninput: () => settle({ search: search.value }),
  });
  const references = h("input", {
    type: "checkbox",
    checked: state.references,
    onchange: () => settle({ references: references.checked }),
  });
  const head = h("section", { class: "facts-row" }),
    filters = h("div", { class: "card filters", role: "group", "aria-label": "columns" }),
    table = h("section", { class: "card results board-table", onkeydown: step }),
    panel = h("div", {
      class: "card details",
      role: "group",
      "aria-live": "polite",
      "aria-label": "details",
    }),
    diagram = h("div"),
    made = h("details", { class: "card", id: "environment" });
  const tools = h("div", { class: "tools" });
  const node = h("div", { class: "view" }, head, tools, filters, table, panel, diagram, made);
  await load();
  return { node, refresh: load, keys: { "/": () => search.focus(), Escape: close } };

  async function load() {
    found = await source.get("board");
    said = common(found.columns.filter(({ metric }) => metric !== null).map(({ metric }) => metric));
    const measures = Object.entries(MEASURES).map(([key, { title }]) => [key, title(said)]);
    if (offered !== (offered = measures.join()))
      put(
        tools,
        search,
        choice("cells show", measures, state.show, (show) => settle({ show })),
        h("label", { class: "tick" }, references, "references"),
      ); // an open list stays open
    put(head, facts(found));
    put(diagram, ranked(found.ranking));
    put(made, h("summary", {}, "Environment"), list(flat(found.environment)));
    draw();
  }

  function settle(change) {
    Object.assign(state, change);
    remember?.({
      show: state.show === "personal" ? null : state.show,
      off: text(state.off),
      search: state.search,
      references: state.references ? null : "off",
      sort: state.sort === SORT ? null : state.sort,
      down: state.down ? "on" : null,
      row: state.row,
      column: state.column,
    });
    draw();
  }

  function close() {
    settle({ row: null, column: null });
  }

  function draw() {
    hideTip();
    put(filters, families());
    const along = table.querySelector(".scroll")?.scrollLeft ?? 0;
    put(
      table,
      h("h3", {}, MEASURES[state.show].title(said)),
      grid(),
      h("p", { class: "note" }, explained(said)),
    );
    table.querySelector(".scroll")?.scrollTo(along, 0);
    reachable(table);
    const known = details(found, state);
    panel.hidden = !known;
    put(panel, known && shown(known));
  }

  // All columns of a family, and each of them, on or off.
  function families() {
    const chip = (title, on, change) =>
      h("button", { type: "button", class: "key", "aria-pressed": String(on), onclick: change }, title);
    const turn = (some, on) => {
      for (const name of some) state.off[on ? "delete" : "add"](name);
      settle({});
    };
    return [...new Set(found.columns.map(({ family }) => family))].map((family) => {
      const own = found.columns.filter((column) => column.family === family).map(({ name }) => name);
      const some = own.some((name) => !state.off.has(name));
      return h(
        "div",
        { class: "legend", role: "group", "aria-label": family },
        h(
          "b",
          {},
          chip(family, some, () => turn(own, !some)),
        ),
        own.map((name) => chip(name, !state.off.has(name), () => turn([name], state.off.has(name)))),
      );
    });
  }

  function grid() {
    const rows = entrants(found, state),
      heads = columns(found, state, settle);
    const sorting = { by: heads.findIndex(({ title }) => title === state.sort), down: state.down };
    if (!rows.length) return h("p", { class: "note" }, "No method is like that.");
    return sortable(heads, rows, sorting, {
      csv: `leaderboard ${state.show}`,
      sorted: () => {
        const { title, column } = heads[sorting.by];
        settle({ sort: title, down: sorting.down, ...(column && { row: null, column }) });
      },
    });
  }

  function shown({ title, note, parts }) {
    return [
      h(
        "button",
        { type: "button", class: "icon close", "aria-label": "close the details", onclick: close },
        "×",
      ),
      h("h3", {}, title),
      h("p", { class: "note" }, note),
      h("div", { class: "cards" }, parts),
    ];
  }
}

function facts({ status, quick, methods, candidates, tuning_seeds: tuned, device, continue_with: resume }) {
  return [
    pill(status),
    status.state === "done"
      ? h("span", {}, `${plural(status.iterations, "column")} in ${duration(status.seconds)}`)
      : progress(status, "columns"),
    h("span", {}, plural(Object.keys(methods).length, "method")),
    h("span", {}, plural(status.seeds, "seed")),
    h("span", {}, `${plural(candidates, "candidate")} each, tuned with ${plural(tuned.length, "seed")}`),
    h("span", {}, device),
    h("span", {}, day(status.date), " UTC"),
    quick && h("p", { class: "hint" }, "A quick board: its numbers say little."),
    resume && h("p", { class: "hint" }, "If it has been stopped, continue it with ", command(resume)),
  ];
}

function ranked(ranking) {
  if (ranking?.critical_difference) return ranks(ranking);
  return h(
    "section",
    { class: "card" },
    h("h3", {}, "Mean ranks"),
    h("p", { class: "note" }, "They appear once there are two columns in which the same methods ran."),
  );
}
