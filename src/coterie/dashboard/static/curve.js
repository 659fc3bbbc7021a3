// The arithmetic of curves: what of a line is shown, its scale, its path, and where there is room for words.

const HIGH = 16; // pixels of a line of text

export const last = (values) => values[values.length - 1];
export const real = (v) => v !== null && v !== undefined;

// A line as it is looked at: within the iterations chosen, smoothed; on a log scale only what is above 0.
export function prepared(line, see) {
  const kind = see.kind(line);
  const inside =
    kind === "hidden"
      ? []
      : [...line.t.keys()].filter((k) => line.t[k] >= (see.from ?? 0) && line.t[k] <= (see.to ?? Infinity));
  const taken = (values) => {
    const shown = values && smooth(values, see.smooth);
    return values && inside.map((k) => (see.log && !(shown[k] > 0) ? null : shown[k]));
  };
  const [t, y, low, high] = [inside.map((k) => line.t[k]), taken(line.y), taken(line.low), taken(line.high)];
  return { ...line, kind, t, y, low, high };
}

// The mean of so many values around each, of those that there are.
function smooth(values, many) {
  if (many <= 1) return values;
  const half = many >> 1;
  return values.map((v, k) => {
    // As many before as after: the ends stay where they are.
    const reach = Math.min(half, k, values.length - 1 - k);
    const around = values.slice(k - reach, k + reach + 1).filter(real);
    return real(v) ? around.reduce((a, b) => a + b, 0) / around.length : v;
  });
}

export function range(lines, from, log) {
  const all = lines
    .flatMap((l) => [...l.y, ...(l.kind === "named" ? [...(l.low ?? []), ...(l.high ?? [])] : [])])
    .filter(real);
  if (log) {
    const low = all.reduce((a, b) => Math.min(a, b), Infinity),
      top = all.reduce((a, b) => Math.max(a, b), 0);
    return low < top ? [low / 1.08, top * 1.08] : Number.isFinite(low) ? [low / 2, low * 2] : [0.1, 1];
  }
  let low = from ?? all.reduce((a, b) => Math.min(a, b), Infinity);
  let top = all.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!Number.isFinite(low) || !Number.isFinite(top)) [low, top] = [0, 1];
  if (low === top) [low, top] = low === 0 ? [0, 1] : [low - Math.abs(low) * 0.1, top + Math.abs(top) * 0.1];
  const room = (top - low) * 0.05;
  return [from === null ? low - room : low, top + room];
}

export function ticks(low, top, about) {
  const raw = (top - low) / about,
    size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * size).find((s) => s >= raw);
  const found = [];
  const tiny = step * 1e-9;
  for (let v = Math.ceil(low / step) * step; v <= top + tiny; v += step)
    found.push(Math.abs(v) < tiny ? 0 : v);
  return found;
}

// 1, 2, 5, 10 ...; over many decades their powers alone, within less than two of these as on a plain scale.
export function logTicks(low, top, about) {
  const found = [];
  for (let e = Math.floor(Math.log10(low)); 10 ** e <= top; e += 1)
    found.push(...[1, 2, 5].map((k) => k * 10 ** e));
  const inside = found.filter((v) => v >= low && v <= top);
  if (inside.length < 2) return ticks(low, top, about);
  return inside.length > 2 * about ? inside.filter((v) => Number.isInteger(Math.log10(v))) : inside;
}

export function stroke({ t, y: values, step }, x, y) {
  let path = "",
    pen = "M";
  t.forEach((at, k) => {
    if (!real(values[k])) {
      pen = "M";
      return;
    }
    if (step && pen === "L") path += `H${x(at).toFixed(1)}`;
    path += `${pen}${x(at).toFixed(1)} ${y(values[k]).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

export function band({ t, low, high }, x, y) {
  const known = t.map((at, k) => [at, low[k], high[k]]).filter(([, a, b]) => real(a) && real(b));
  if (known.length < 2) return "";
  const there = known.map(([at, , b]) => `${x(at).toFixed(1)} ${y(b).toFixed(1)}`);
  const back = known.reverse().map(([at, a]) => `${x(at).toFixed(1)} ${y(a).toFixed(1)}`);
  return `M${there.join("L")}L${back.join("L")}Z`;
}

// Heights of the names beside the ends of the lines, moved apart where they would overlap.
export function ends(lines, y, top, bottom) {
  const placed = lines.filter((l) => real(last(l.y))).map((line) => [line, y(last(line.y))]);
  placed.sort((a, b) => a[1] - b[1]);
  for (let round = 0; round < 60; round += 1) {
    for (let k = 0; k + 1 < placed.length; k += 1) {
      const lack = HIGH - (placed[k + 1][1] - placed[k][1]);
      if (lack > 0) {
        placed[k][1] -= lack / 2;
        placed[k + 1][1] += lack / 2;
      }
    }
    if (placed.length && placed[0][1] < top + 4) placed[0][1] = top + 4;
    if (placed.length && placed.at(-1)[1] > bottom) placed.at(-1)[1] = bottom;
  }
  return placed;
}

// Of some heights the one that is farthest from all lines.
export function freest(heights, taken) {
  const room = (at) => Math.min(...taken.map((y) => Math.abs(y - at)), 1e6);
  return heights.reduce((a, b) => (room(a) >= room(b) ? a : b));
}

// The grey line at the pointer, if there is one.
export function nearby(lines, t, pointed, y) {
  const far = (line) => {
    const v = value(line, t);
    return real(v) ? Math.abs(y(v) - pointed) : Infinity;
  };
  const best = lines.reduce((a, b) => (a && far(a) <= far(b) ? a : b), null);
  return best && far(best) < 12 ? [{ ...best, colour: "var(--soft)" }] : [];
}

export function nearest(sorted, wanted) {
  let low = 0,
    high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < wanted) low = middle;
    else high = middle;
  }
  return wanted - sorted[low] < sorted[high] - wanted ? low : high;
}

export function value(line, t) {
  if (t < line.t[0]) return null;
  const k = nearest(line.t, t);
  return line.t[k] === t ? line.y[k] : line.step ? line.y[line.t[k] > t ? k - 1 : k] : null;
}
