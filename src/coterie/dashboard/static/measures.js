// What a cell of a leaderboard can show: its title, its number, its text, and which end is sorted first. Titles,
// texts and ends are told by the wording of a column's metric; of columns with several metrics, titles by none.
import { amount, count, NONE } from "./format.js";

const there = (v) => v !== null && v !== undefined;
const share = (v) => (there(v) ? (100 * v).toFixed(1) : NONE);

export const probability = (p) => (there(p) ? (p < 0.001 ? "< 0.001" : p.toFixed(3)) : NONE);
export const auc = (v) => (there(v) ? v.toFixed(2) : NONE);

const measure = (title, value, text, first = "desc") => ({
  title: () => title,
  value,
  text: text ?? ((cell) => share(value(cell))),
  first: () => first,
});

// One that is in the metric of its column.
const measured = (title, value, text) => ({
  title,
  value,
  text: text ?? ((cell, said) => said.text(value(cell))),
  first: (said) => said.first,
});

const unit = (said) => (said?.unit ? `, ${said.unit}` : "");

export const MEASURES = {
  personal: measured(
    (said) => said?.heading("personal") ?? "personal",
    (cell) => cell.personal.mean,
    (cell, said) => said.spread(cell.personal),
  ),
  worst10: measured(
    (said) => `worst tenth of the clients${unit(said)}`,
    (cell) => cell.worst10,
  ),
  hurt: measure("hurt, % of clients", (cell) => cell.hurt, null, "asc"),
  sure: measure("surely hurt, % of clients", (cell) => cell.surely_hurt, null, "asc"),
  global: measured(
    (said) => said?.heading("global") ?? "global",
    (cell) => cell.global.mean,
    (cell, said) => said.spread(cell.global),
  ),
  megabytes: measure(
    "MB sent",
    (cell) => cell.megabytes,
    (cell) => amount(cell.megabytes),
    "asc",
  ),
  gradients: measure(
    "gradients of a client",
    (cell) => cell.gradients,
    (cell) => count(cell.gradients),
    "asc",
  ),
  auc: measure(
    "graph AUC",
    (cell) => cell.graph_auc,
    (cell) => auc(cell.graph_auc),
  ),
  peak: measured(
    (said) => `best over rounds${unit(said)}`,
    (cell) => cell.best_over_rounds?.mean,
  ),
  p: measure(
    "p against the best",
    (cell) => cell.p_holm,
    (cell) => probability(cell.p_holm),
  ),
};
