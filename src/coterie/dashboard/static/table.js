// A table that sorts by a click on a column's head, or Enter on it, and says where columns are out of sight.
import { h, put } from "./dom.js";
import { csvButton } from "./download.js";

// columns: [{title, note, value(row), cell(row), left, first: "desc" | "asc"}]; state: the column by which it
// is sorted, and how; sorted(): called when that changes; csv: the name of a file of it, if there is one.
export function sortable(columns, rows, state = {}, { sorted, csv } = {}) {
  const body = h("tbody");
  const heads = columns.map((column, k) =>
    h(
      "th",
      { scope: "col", class: column.left ? "left" : "" },
      column.value
        ? h("button", { type: "button", title: column.note, onclick: () => sort(k) }, column.title)
        : column.title,
    ),
  );
  const region = h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "table" },
    h("table", {}, h("thead", {}, h("tr", {}, heads)), body),
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
    return [...rows].sort((a, b) => compare(value(a), value(b)) * (state.down ? -1 : 1));
  }

  function draw() {
    heads.forEach((head, k) =>
      head.setAttribute("aria-sort", k !== state.by ? "none" : state.down ? "descending" : "ascending"),
    );
    put(
      body,
      ordered().map((row) =>
        h(
          "tr",
          {},
          columns.map((column) =>
            h("td", { class: column.left ? "left" : "", "data-title": column.title }, column.cell(row)),
          ),
        ),
      ),
    );
  }

  function file() {
    const known = columns.filter((column) => column.value);
    return [
      known.map((column) => column.title),
      ...ordered().map((row) => known.map((column) => column.value(row))),
    ];
  }

  draw();
  return h("div", { class: "sortable" }, region, hint, csv && csvButton(csv, file));
}

function compare(a, b) {
  const [x, y] = [a ?? -Infinity, b ?? -Infinity];
  return x < y ? -1 : x > y ? 1 : 0;
}
