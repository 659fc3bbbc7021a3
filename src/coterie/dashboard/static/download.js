// What is shown as a file: numbers as CSV, pictures as PNG. Nothing is sent anywhere.
import { h } from "./dom.js";

const SCALE = 2,
  EDGE = 16;

function save(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name.replace(/[^\w.+=-]+/g, "_") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// A text that begins like a formula gets an apostrophe, so that no spreadsheet computes it.
function cell(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const button = (text, title, onclick) => h("button", { type: "button", class: "get", title, onclick }, text);

// rows(): the head and then the rows, as lists.
export const csvButton = (name, rows) =>
  button("CSV", `${name}: the numbers as CSV`, () => {
    const lines = rows().map((row) => `${row.map(cell).join(",")}\r\n`);
    save(`${name}.csv`, new Blob(lines, { type: "text/csv" }));
  });

export const pngButton = (name, picture) =>
  button("PNG", `${name}: the picture as PNG`, () => picture().toBlob((blob) => save(`${name}.png`, blob)));

// An SVG of lines, rectangles, circles, paths and texts on a canvas, below its title and above its legend.
// An image of it would be simpler, but the page allows none that does not come from its own server.
export function painted(title, drawing, keys) {
  const { width, height } = drawing.viewBox.baseVal,
    style = getComputedStyle(drawing);
  const canvas = h("canvas"),
    pen = canvas.getContext("2d"),
    family = style.fontFamily;
  const rows = flowed(pen, keys, width, `13px ${family}`);
  canvas.width = (width + 2 * EDGE) * SCALE;
  canvas.height = (height + 2 * EDGE + 26 + 20 * rows.length) * SCALE;
  pen.scale(SCALE, SCALE);
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--card");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.translate(EDGE, EDGE);
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--text");
  pen.font = `640 15px ${family}`;
  pen.fillText(title, 0, 12);
  pen.font = `13px ${family}`;
  rows.forEach((row, k) =>
    row.forEach(({ key, x }) => {
      const y = 26 + height + 20 * k + 14;
      pen.fillText(key.textContent, x + 24, y);
      paint(pen, key.querySelector("line"), [x, y - 8]);
    }),
  );
  pen.translate(0, 26);
  for (const shape of drawing.querySelectorAll("rect, line, path, circle, text")) paint(pen, shape, [0, 0]);
  return canvas;
}

// Where each key of a legend is put, row by row.
function flowed(pen, keys, width, font) {
  const rows = [];
  let x = Infinity;
  pen.font = font;
  for (const key of keys) {
    const wide = 24 + pen.measureText(key.textContent).width + 16;
    if (x + wide > width) {
      rows.push([]);
      x = 0;
    }
    rows.at(-1).push({ key, x });
    x += wide;
  }
  return rows;
}

function paint(pen, shape, [dx, dy]) {
  const style = getComputedStyle(shape),
    at = (name) => Number(shape.getAttribute(name) ?? 0);
  pen.save();
  pen.translate(dx, dy);
  pen.globalAlpha = Number(style.opacity);
  [pen.fillStyle, pen.strokeStyle, pen.lineWidth] = [style.fill, style.stroke, parseFloat(style.strokeWidth)];
  pen.setLineDash(
    style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(/[ ,]+/).map(parseFloat),
  );
  if (shape.tagName === "text") {
    pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    pen.textAlign = { middle: "center", end: "right" }[style.textAnchor] ?? "left";
    if (style.stroke !== "none") pen.strokeText(shape.textContent, at("x"), at("y"));
    pen.fillText(shape.textContent, at("x"), at("y"));
  } else {
    const path = new Path2D(shape.tagName === "path" ? shape.getAttribute("d") : undefined);
    if (shape.tagName === "rect") path.rect(at("x"), at("y"), at("width"), at("height"));
    if (shape.tagName === "circle") path.arc(at("cx"), at("cy"), at("r"), 0, 7);
    if (shape.tagName === "line") {
      path.moveTo(at("x1"), at("y1"));
      path.lineTo(at("x2"), at("y2"));
    }
    if (style.fill !== "none" && shape.tagName !== "line") pen.fill(path);
    if (style.stroke !== "none") pen.stroke(path);
  }
  pen.restore();
}
