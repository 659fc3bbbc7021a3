// Cells of a table that can be chosen, each with a hint on hover and focus. Arrow keys go from one to the next,
// so that the table is but one stop of the tabulator.
import { h, hideTip, showTip } from "./dom.js";

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

export function cell(content, chosen, hint, choose) {
  const hinted = (event) => {
    if (!hint) return;
    const box = event.target.getBoundingClientRect();
    showTip(box.left, box.bottom - 14, hint);
  };
  return h(
    "button",
    {
      type: "button",
      class: "cell",
      tabindex: chosen ? 0 : -1,
      "aria-pressed": String(chosen),
      "aria-description": hint,
      onclick: choose,
      onpointerenter: hinted,
      onfocus: hinted,
      onpointerleave: hideTip,
      onblur: hideTip,
    },
    content,
  );
}

// Lets the tabulator reach the first cell, if none is chosen.
export function reachable(table) {
  const first = table.querySelector(".cell[tabindex='0']") ?? table.querySelector(".cell");
  if (first) first.tabIndex = 0;
}

// What a key pressed in the table does.
export function step(event) {
  const from = event.target.closest(".cell"),
    by = STEPS[event.key];
  if (!from || !by) return;
  event.preventDefault();
  const next = beside(from.closest("td"), by);
  if (!next) return;
  from.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function beside(from, [down, right]) {
  const rows = [...from.closest("tbody").rows];
  const row = rows[rows.indexOf(from.parentElement) + down];
  for (let k = from.cellIndex + right; row?.cells[k]; k += right) {
    const found = row.cells[k].querySelector(".cell");
    if (found || !right) return found;
  }
  return null;
}
