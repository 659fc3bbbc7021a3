// A long list of which only what is visible exists: 2,000 clients cost as much as 20.
import { h } from "./dom.js";

// wide: the least width of a cell, or 0 for one cell in a row; high: the height of a row. from(top) draws the list
// once it is in the page, scrolled by so much.
export function windowed(count, high, wide, render, className) {
  const rows = h("div", { class: "rows" }),
    inner = h("div", { class: `${className} window`, css: { "--high": `${high}px` } }, rows);
  const node = h(
    "div",
    { class: "viewport", tabindex: 0, role: "group", "aria-label": `${count} clients` },
    inner,
  );
  const cells = new Map(); // what exists, by its place in the list

  function draw() {
    const across = wide ? Math.max(1, Math.floor(node.clientWidth / wide)) : 1;
    const lines = Math.ceil(count / across);
    const first = Math.max(0, Math.floor(node.scrollTop / high) - 2);
    const end = Math.min(lines, Math.ceil((node.scrollTop + node.clientHeight) / high) + 2);
    inner.style.height = `${lines * high}px`;
    inner.style.setProperty("--across", across);
    inner.style.setProperty("--first", `${first * high}px`);
    keep(first * across, Math.min(count, end * across));
  }

  // Cells that stay in sight are left alone, so that scrolling draws few and the focus stays where it is.
  function keep(begin, end) {
    for (const [k, cell] of cells) {
      if (k >= begin && k < end) continue;
      cell.remove();
      cells.delete(k);
    }
    for (let k = end - 1, next = null; k >= begin; k -= 1) {
      if (!cells.has(k)) {
        cells.set(k, render(k));
        rows.insertBefore(cells.get(k), next);
      }
      next = cells.get(k);
    }
  }

  function from(top) {
    draw();
    node.scrollTop = top;
    draw();
  }

  node.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  new ResizeObserver(draw).observe(node);
  return { node, from };
}
