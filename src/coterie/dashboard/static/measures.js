// What a cell of a leaderboard can show: its title, its number, its text, and which end is sorted first.
import { amount, count, NONE } from "./format.js";

const there = (v) => v !== null && v !== undefined;
export const share = (v) => (there(v) ? (100 * v).toFixed(1) : NONE);

// A mean and its standard deviation over seeds, in percent.
export const spread = ({ mean, std }) => (there(std) ? `${share(mean)} ± ${share(std)}` : share(mean));
export const probability = (p) => (there(p) ? (p < 0.001 ? "< 0.001" : p.toFixed(3)) : NONE);
export const auc = (v) => (there(v) ? v.toFixed(2) : NONE);

const measure = (title, value, text, first = "desc") => ({
  title,
  value,
  text: text ?? ((cell) => share(value(cell))),
  first,
});

export const MEASURES = {
  personal: measure(
    "personal accuracy, %",
    (cell) => cell.personal.mean,
    (cell) => spread(cell.personal),
  ),
  worst10: measure("worst tenth of the clients, %", (cell) => cell.worst10),
  hurt: measure("hurt, % of clients", (cell) => cell.hurt, null, "asc"),
  sure: measure("surely hurt, % of clients", (cell) => cell.surely_hurt, null, "asc"),
  global: measure(
    "global accuracy, %",
    (cell) => cell.global.mean,
    (cell) => spread(cell.global),
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
  peak: measure("best over rounds, %", (cell) => cell.best_over_rounds?.mean),
  p: measure(
    "p against the best",
    (cell) => cell.p_holm,
    (cell) => probability(cell.p_holm),
  ),
};
