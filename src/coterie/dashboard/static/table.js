// A table that sorts by a click on a column's head, or Enter on it, and says where columns are out of sight.
// Rows whose value is not known come last, however it is sorted.
import { h, put } from "./dom.js";
import { csvButton } from "./download.js";

// columns: [{title, head (shown in its place, where it does not sort), note, value(row), cell(row), csv(row): what a
// file has in place of the value, left, first: "desc" | "asc", group: a title above several}];
// state: the column by which it is sorted, and how; sorted(): called when that changes; csv: the name of a file
// of it, if there is one; group: rows of one group stand together, {of(row): its name, head(name, rows): what is said
// above them}. file() of the node gives its rows, for a button that stands elsewhere.
export function sortable(columns, rows, state = {}, { sorted, csv, group } = {}) {
  const body = h("tbody");
  const heads = columns.map((column, k) =>
    h(
      "th",
      { scope: "col", class: column.left ? "left" : "" },
      column.value
        ? h("button", { type: "button", title: column.note, onclick: () => sort(k) }, column.title)
        : (column.head ?? column.title),
    ),
  );
  const region = h(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": csv ?? "table" },
    h("table", {}, h("thead", {}, groups(columns), h("tr", {}, heads)), body),
  );
  const hint = h("p", { class: "note cut", hidden: true }, "more columns to the right →");
  const look = () => {
    const box = region.closest(".tall") ?? region; // whichever of the two scrolls
    box.onscroll = look;
    hint.hidden = box.scrollLeft + box.clientWidth > box.scrollWidth - 8;
  };
  new ResizeObserver(look).observe(region);

  function sort(k) {
    state.down = state.by === k ? !state.down : columns[k].first !== "asc";
    state.by = k;
    draw();
    sorted?.();
  }

  function ordered() {
    if (!columns[state.by]?.value) return rows;
    const { value } = columns[state.by];
    const unknown = (row) => (value(row) ?? null) === null;
    const known = rows.filter((row) => !unknown(row));
    known.sort((a, b) => compare(value(a), value(b)) * (state.down ? -1 : 1));
    return [...known, ...rows.filter(unknown)];
  }

  function draw() {
    heads.forEach((head, k) =>
      head.setAttribute("aria-sort", k !== state.by ? "none" : state.down ? "descending" : "ascending"),
    );
    if (!group) return put(body, ordered().map(line));
    const parts = Map.groupBy(ordered(), group.of);
    return put(
      body,
      [...parts].map(([name, members]) => [
        h(
          "tr",
          { class: "members" },
          h("th", { scope: "colgroup", colspan: columns.length, class: "left" }, group.head(name, members)),
        ),
        members.map(line),
      ]),
    );
  }

  function line(row) {
    const cell = (column) =>
      h("td", { class: column.left ? "left" : "", "data-title": column.title }, column.cell(row));
    return h("tr", {}, columns.map(cell));
  }

  function file() {
    const known = columns.filter((column) => column.value);
    return [
      known.map((column) => column.title),
      ...ordered().map((row) => known.map((column) => (column.csv ?? column.value)(row))),
    ];
  }

  draw();
  const node = h("div", { class: "sortable" }, region, hint, csv && csvButton(csv, file));
  return Object.assign(node, { file });
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// A row of titles above columns that belong together, if any do.
function groups(columns) {
  const spans = [];
  for (const { group = "" } of columns) {
    if (spans.at(-1)?.group === group) spans.at(-1).wide += 1;
    else spans.push({ group, wide: 1 });
  }
  if (!columns.some((column) => column.group)) return null;
  const head = ({ group, wide }) =>
    group ? h("th", { scope: "colgroup", colspan: wide, class: "group" }, group) : h("td", { colspan: wide });
  return h("tr", {}, spans.map(head));
}
