// Colours that colour-blind readers can tell apart; the same ones as in the pictures of `coterie plot`.

const HUES = 12;
export const DASHES = ["", "6 4", "2 3", "8 3 2 3"];
const LABELS = [
  "#332288",
  "#88CCEE",
  "#44AA99",
  "#117733",
  "#999933",
  "#DDCC77",
  "#CC6677",
  "#882255",
  "#AA4499",
  "#BBBBBB",
];
const LABELS_DARK = [
  "#8478e6",
  "#88CCEE",
  "#44AA99",
  "#2f9e52",
  "#a8a83a",
  "#DDCC77",
  "#e07f8d",
  "#c2497f",
  "#c474c4",
  "#BBBBBB",
];
const LIGHT = [
  [255, 255, 255],
  [201, 220, 239],
  [90, 155, 208],
  [11, 85, 159],
  [6, 43, 87],
];
const DARK = [
  [24, 28, 34],
  [28, 60, 96],
  [38, 112, 173],
  [102, 178, 232],
  [226, 243, 255],
];

export const isDark = () => document.documentElement.dataset.theme === "dark";
export const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// The colour of a method, which is the same in every run; null is grey, for Local.
export function methodColour(hue, shade = 0) {
  const pure = hue === null ? "var(--alone)" : `var(--m${hue})`;
  return shade ? `color-mix(in srgb, ${pure} 55%, var(--text))` : pure;
}

// How the rows of a result table are drawn, by name, as the server says.
export const looks = (rows) =>
  Object.fromEntries(
    rows.map(({ name, hue, dash, shade, named }) => [
      name,
      { colour: methodColour(hue, shade), dash: DASHES[dash], named },
    ]),
  );

const groupHue = (k) => (k % HUES < 6 ? 5 - (k % HUES) : k % HUES);
export const series = (k) => `var(--m${k % HUES})`;
export const groupColour = (k) => `var(--m${groupHue(k)})`;
export const groupInk = (k) => ink(`m${groupHue(k)}`);

export function labelColour(k, n) {
  if (n <= LABELS.length) return (isDark() ? LABELS_DARK : LABELS)[k];
  return `hsl(${Math.round(250 - (250 * k) / (n - 1))} 62% ${k % 2 ? 46 : 62}%)`;
}

export function heat(share) {
  const ramp = isDark() ? DARK : LIGHT;
  const at = Math.min(1, Math.max(0, share)) * (ramp.length - 1);
  const k = Math.min(ramp.length - 2, Math.floor(at));
  return ramp[k].map((from, c) => Math.round(from + (ramp[k + 1][c] - from) * (at - k)));
}
