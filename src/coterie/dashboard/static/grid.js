// The rows and columns of a leaderboard's table.
import { cell } from "./cells.js";
import { pending } from "./details.js";
import { h } from "./dom.js";
import { NONE, percent } from "./format.js";
import { MEASURES } from "./measures.js";
import { wording } from "./metric.js";

// The methods to show, the best first, references last. board: as in leaderboard.json.
export function entrants(board, { search, references }) {
  const words = search.toLowerCase().split(/\s+/);
  return Object.entries(board.methods)
    .map(([label, method]) => ({
      ...method,
      label,
      reference: board.references.includes(label),
      hurt: over(board, label, MEASURES.hurt),
      sure: over(board, label, MEASURES.sure),
    }))
    .filter(({ label }) => board.columns.some(({ cells }) => label in cells))
    .filter(({ reference }) => references || !reference)
    .filter(({ label, name }) => words.every((word) => `${label} ${name}`.toLowerCase().includes(word)))
    .sort(
      (a, b) =>
        a.reference - b.reference ||
        (a.mean_rank ?? 1e9) - (b.mean_rank ?? 1e9) ||
        (a.regret?.points ?? 1e9) - (b.regret?.points ?? 1e9),
    );
}

// The mean of a measure over all columns in which it is known.
function over(board, label, { value }) {
  const known = board.columns
    .map(({ cells }) => cells[label])
    .filter((found) => found && !found.why)
    .map(value)
    .filter((v) => v !== null && v !== undefined);
  return known.length ? known.reduce((sum, v) => sum + v, 0) / known.length : null;
}

// state: {show, off, row, column}; choose({row, column}) is called for what is clicked.
export function columns(board, state, choose) {
  const own = (content, at, hint) => {
    const chosen = state.row === at.row && state.column === at.column;
    return cell(content, chosen, hint, () => choose(chosen ? { row: null, column: null } : at));
  };
  const shown = board.columns.filter(({ name }) => !state.off.has(name));
  const cells = shown.map((column) => scored(column, MEASURES[state.show], own));
  return [named(own), ...overColumns(wording(board.metric)), ...cells];
}

const named = (own) => ({
  title: "method",
  left: true,
  first: "asc",
  value: ({ label }) => label,
  cell: ({ label, reference, about }) =>
    own([label, reference && h("small", {}, " reference")], { row: label, column: null }, about),
});

const overAll = (title, note, value, text) => ({
  title,
  note,
  value,
  group: "over all columns",
  first: "asc",
  cell: text,
});
const TWIN = "clients below their Local twin, mean over columns";
const overColumns = (said) => [
  overAll(
    "mean rank",
    "among the methods that ran in all columns",
    (row) => row.mean_rank,
    (row) => row.mean_rank?.toFixed(1) ?? NONE,
  ),
  overAll(
    "regret",
    `the largest loss of ${said.words()} against the best of a column, in ${said.gains}`,
    (row) => row.regret?.points,
    ({ regret }) => (regret ? h("span", { title: regret.column }, said.text(regret.points)) : NONE),
  ),
  overAll(
    "hurt",
    TWIN,
    (row) => row.hurt,
    (row) => percent(row.hurt, 0),
  ),
  overAll(
    "surely hurt",
    `${TWIN}, with 95 % confidence`,
    (row) => row.sure,
    (row) => percent(row.sure, 0),
  ),
  overAll(
    "seconds",
    "of a run of one seed by itself, in one column",
    (row) => row.seconds?.alone,
    ({ seconds }) => (seconds ? h("span", { title: seconds.column }, seconds.alone.toFixed(1)) : NONE),
  ),
];

function scored(column, measure, own) {
  const { name, family, title, state, cells } = column,
    said = wording(column.metric);
  const ran = (row) => (cells[row.label]?.why ? undefined : cells[row.label]);
  return {
    title: name,
    column: name,
    group: family,
    first: measure.first(said),
    note:
      state === "done" ? [title, said.direction].filter(Boolean).join("; ") : `${title}. ${pending(column)}`,
    value: (row) => ran(row) && measure.value(ran(row)),
    cell: (row) => {
      const found = ran(row),
        at = { row: row.label, column: name };
      if (!found) return own(NONE, at, cells[row.label]?.why ?? pending(column));
      const text = measure.text(found, said);
      return own(found.as_good ? h("b", {}, text) : text, at);
    },
  };
}
