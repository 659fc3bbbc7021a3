// A long list of which only what is visible exists: 1,000 clients cost as much as 20.
import { h, put } from "./dom.js";

// wide: the least width of a cell, or 0 for one cell in a row.
export function windowed(count, high, wide, render, className) {
  const inner = h("div", { class: `${className} window` });
  const node = h(
    "div",
    { class: "viewport", tabindex: 0, role: "group", "aria-label": `${count} clients` },
    inner,
  );
  let shown = "";

  function draw(force) {
    const across = wide ? Math.max(1, Math.floor(node.clientWidth / wide)) : 1;
    const rows = Math.ceil(count / across);
    const first = Math.max(0, Math.floor(node.scrollTop / high) - 2);
    const end = Math.min(rows, Math.ceil((node.scrollTop + node.clientHeight) / high) + 2);
    const now = `${first}-${end}-${across}`;
    if (now === shown && !force) return;
    shown = now;
    inner.style.height = `${rows * high}px`;
    inner.style.setProperty("--across", across);
    inner.style.setProperty("--high", `${high}px`);
    inner.style.setProperty("--first", `${first * high}px`);
    put(
      inner,
      h(
        "div",
        { class: "rows" },
        Array.from({ length: Math.min(count, end * across) - first * across }, (_, k) =>
          render(first * across + k),
        ),
      ),
    );
  }

  // Draws the list, which has come into the page only now, from so many pixels on.
  function from(top) {
    draw(true);
    node.scrollTop = top;
    draw(false);
  }

  node.addEventListener("scroll", () => requestAnimationFrame(() => draw(false)), { passive: true });
  new ResizeObserver(() => draw(true)).observe(node);
  return { node, from };
}
