// A table that sorts by a click on a column's head, or by Enter on it.
import { h, put } from "./dom.js";

// columns: [{title, note, value(row), cell(row), left, first: "desc" | "asc"}]
export function sortable(columns, rows, state = {}) {
  const body = h("tbody");
  const heads = columns.map((column, k) => h("th", { scope: "col", class: column.left ? "left" : "" },
    h("button", { type: "button", title: column.note, onclick: () => sort(k) }, column.title)));
  const table = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "table" },
    h("table", {}, h("thead", {}, h("tr", {}, heads)), body));

  function sort(k) {
    state.down = state.by === k ? !state.down : columns[k].first !== "asc";
    state.by = k;
    draw();
  }

  function draw() {
    const sorted = [...rows];
    if (state.by !== undefined) {
      const { value } = columns[state.by];
      sorted.sort((a, b) => compare(value(a), value(b)) * (state.down ? -1 : 1));
    }
    heads.forEach((head, k) => head.setAttribute("aria-sort",
      k !== state.by ? "none" : state.down ? "descending" : "ascending"));
    put(body, sorted.map((row) => h("tr", {}, columns.map((column) =>
      h("td", { class: column.left ? "left" : "" }, column.cell(row))))));
  }

  draw();
  return table;
}

function compare(a, b) {
  const [x, y] = [a ?? -Infinity, b ?? -Infinity];
  return x < y ? -1 : x > y ? 1 : 0;
}
