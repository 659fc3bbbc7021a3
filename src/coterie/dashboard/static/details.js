// What is known of one cell of a leaderboard, of a whole column, or of a method.
import { h } from "./dom.js";
import { amount, count, duration, NONE, percent } from "./format.js";
import { auc, probability } from "./measures.js";
import { wording } from "./metric.js";
import { flat, list } from "./overview.js";

// board: as in leaderboard.json; at: {row: a method | null, column: a name | null}; null if there is no such.
export function details(board, at) {
  const column = board.columns.find(({ name }) => name === at.column);
  const method = board.methods[at.row];
  if (column && method) return cell(board, at.row, column);
  if (column) return whole(column);
  return method ? entrant(board, at.row, method) : null;
}

const shown = (title, note, ...parts) => ({ title, note, parts });
const part = (title, pairs) => h("div", {}, h("h4", {}, title), list(pairs));
const told = (setting) => flat(setting).map(([key, value]) => `${key} ${value}`);

function cell(board, label, column) {
  const found = column.cells[label],
    title = `${label} in ${column.name}`;
  if (!found) return shown(title, pending(column));
  if (found.why) return shown(title, `It cannot run here: ${found.why}`);
  const { personal, best_over_rounds: peak, validation } = found,
    said = wording(column.metric);
  const spread = (value) => `${said.spread(value)} ${said.unit}`.trim();
  return shown(
    title,
    column.title,
    part(said.title(), [
      ["personal", spread(personal)],
      [`with each seed${said.unit && `, ${said.unit}`}`, personal.seeds.map(said.text).join(", ")],
      ["worst tenth", said.full(found.worst10)],
      ["global", spread(found.global)],
      ["best over rounds", peak ? `${said.full(peak.mean)}, at iteration ${count(peak.t)}` : NONE],
    ]),
    part("Against others", [
      ["rank", board.references.includes(label) ? "a reference, not ranked" : amount(found.rank)],
      ["against the best", label === column.best ? "the best" : said.gain(negative(found.loss))],
      ["p (Holm)", probability(found.p_holm)],
      ["hurt", percent(found.hurt)],
      ["surely hurt", percent(found.surely_hurt)],
      ["graph AUC", auc(found.graph_auc)],
    ]),
    part("Cost", [
      ["sent", `${amount(found.megabytes)} MB`],
      ["gradients of a client", count(found.gradients)],
      ["clients diverged", count(found.diverged)],
      ["time of the column", time(column)],
    ]),
    part("Chosen while tuning", [
      ["on validation samples", spread(validation)],
      ["of candidates", count(validation.candidates)],
      ...flat(found.setting),
    ]),
  );
}

const negative = (loss) => (loss === null ? null : -loss);
const time = ({ seconds: { tuning, figures } }) =>
  `${duration(tuning)} tuning, ${duration(figures)} figures, all methods side by side`;

// Why a column has no figures of a method yet.
export const pending = (column) =>
  column.state === "left out" ? `The column is left out: ${column.why}` : `The column is ${column.state}.`;

function whole(column) {
  const out = Object.entries(column.cells).filter(([, found]) => found.why);
  return shown(
    column.name,
    column.state === "done" ? column.title : `${column.title}. ${pending(column)}`,
    part("Clients", [
      ["family", column.family],
      ["data set", column.dataset ?? NONE],
      ["clients", count(column.clients)],
      ["groups", count(column.groups)],
      ["classes", count(column.classes)],
      ["model", column.model ?? NONE],
    ]),
    part("Protocol", [
      ["iterations", count(column.iterations)],
      ["exchange every", count(column.exchange_every)],
      ["stars", amount(column.stars)],
      ["best", column.best ?? NONE],
      ["time", time(column)],
    ]),
    out.length > 0 &&
      part(
        "Cannot run here",
        out.map(([label, found]) => [label, found.why]),
      ),
  );
}

function entrant(board, label, method) {
  const { regret, seconds } = method;
  const chosen = board.columns.filter(({ cells }) => cells[label]?.setting);
  return shown(
    label,
    method.about,
    part("Over all columns", [
      ["algorithm", method.name],
      ["mean rank", board.references.includes(label) ? "a reference, not ranked" : amount(method.mean_rank)],
      [
        "regret",
        regret ? `${wording(board.metric).gain(negative(regret.points))} in ${regret.column}` : NONE,
      ],
      ["columns", count(method.columns)],
      ["time alone", seconds ? `${duration(seconds.alone)}, one seed in ${seconds.column}` : NONE],
    ]),
    chosen.length > 0 &&
      part(
        "Chosen while tuning",
        chosen.map(({ name, cells }) => [name, told(cells[label].setting).join(", ") || NONE]),
      ),
  );
}
