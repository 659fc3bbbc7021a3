// Values of a metric as people read them, written as `coterie.runs.wording` writes them: a test holds the two
// together. Nothing else on the page knows a metric's unit, scale or direction.
import { amount, NONE } from "./format.js";

const there = (v) => v !== null && v !== undefined && Number.isFinite(v);
const WORST = -Number.MAX_VALUE; // less than any merit, and no NaN when two of them are subtracted
const ACCURACY = {
  name: "accuracy",
  title: "accuracy",
  unit: "%",
  higher_is_better: true,
  scale: 100,
  digits: 1,
};

// A metric as in a run's task.json; what was written before there were several has none, and is accuracy.
export function wording(given) {
  const metric = given ?? ACCURACY;
  const { title, unit, higher_is_better: up, scale, digits } = metric;
  const plain = metric.name === ACCURACY.name && unit === ACCURACY.unit;
  const percent = unit === "%";
  const text = (v) => (there(v) ? grouped((scale * v).toFixed(digits)) : NONE);
  const full = (v) => (there(v) && unit ? `${text(v)} ${unit}` : text(v));
  const words = (kind) => (kind ? `${kind} ${title}` : title);
  const size = (v) => [text(Math.abs(v)), percent ? "pts" : unit].filter(Boolean).join(" ");
  return {
    up,
    unit,
    scale,
    text, // 83.3, 0.41
    full, // 83.3 %, 0.41 kg
    // For an axis, whose values are round, with as few digits as these need: 83 %, 10.5 %, 0.4
    tick: (v) =>
      percent ? (there(v) ? `${Number((scale * v).toFixed(2))} %` : NONE) : amount(there(v) ? scale * v : v),
    spread: ({ mean, std }) => (there(std) ? `${text(mean)} ± ${text(std)}` : text(mean)),
    // A difference, positive where it is for the better: +4.2 pts, −0.03 kg
    gain: (v) => (there(v) ? `${v > 0 ? "+" : v < 0 ? "−" : "±"}${size(v)}` : NONE),
    gains: percent ? "points" : unit || title, // what differences are counted in
    step: 10 ** -digits / scale, // the smallest difference that is seen
    words, // personal accuracy
    title: (kind) => words(kind).replace(/^./, (letter) => letter.toUpperCase()), // Personal accuracy
    heading: (kind) => words(kind) + (unit ? `, ${unit}` : ""), // personal accuracy, %
    direction: plain ? "" : `${up ? "higher" : "lower"} is better`,
    first: up ? "desc" : "asc", // the end that a table shows first
    merit: (v) => (there(v) ? (up ? v : -v) : WORST), // the larger the better
    // How much of a bar a value fills: its share of one, or of the largest there is.
    share: (v, most) => (there(v) ? (percent ? v : v / (most || 1)) : 0),
    same: (other) => JSON.stringify(metric) === JSON.stringify(other ?? ACCURACY),
  };
}

const grouped = (digits) => digits.replace(/\B(?<!\.\d*)(?=(\d{3})+(?!\d))/g, ",");

// The wording of all of them if they are one metric, else null.
export function common(metrics) {
  const first = wording(metrics[0]);
  return metrics.every(first.same) ? first : null;
}
