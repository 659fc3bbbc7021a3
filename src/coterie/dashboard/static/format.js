// Numbers as people read them, always with their unit.

export const NONE = "–";
const there = (v) => v !== null && v !== undefined && Number.isFinite(v);

export const percent = (v, digits = 1) => (there(v) ? `${(100 * v).toFixed(digits)} %` : NONE);
export const whole = (v) => percent(v, 0);
export const count = (v) => (there(v) ? Math.round(v).toLocaleString("en").replaceAll(",", "\u202f") : NONE);
export const amount = (v) =>
  !there(v) ? NONE : v === 0 ? "0" : Math.abs(v) >= 100 ? count(v) : String(Number(v.toPrecision(3)));

export function bytes(v) {
  if (!there(v)) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let k = 0,
    rest = v;
  while (rest >= 1000 && k < units.length - 1) {
    rest /= 1000;
    k += 1;
  }
  return `${k && rest < 100 ? rest.toFixed(1) : Math.round(rest)} ${units[k]}`;
}

export const roundBytes = (v) => bytes(v).replace(".0 ", " ");

export function duration(seconds) {
  if (!there(seconds)) return NONE;
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export const day = (iso) => (iso ? iso.slice(0, 16).replace("T", " ") : NONE);
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

// A client by its number and, where that is known, the name of the owner of its samples.
export const called = (number, owner) => (owner ? `client ${number} (${owner})` : `client ${number}`);

// What client k of an answer's columns is called: its number among all clients, where a sample of them is recorded.
export const numbered = (found, k) => found.numbers?.[k] ?? k;
