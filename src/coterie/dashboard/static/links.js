// The same graph as points and links: clients that listen to each other lie near each other.
import { fitted, h, hideTip, showTip } from "./dom.js";
import { amount, called } from "./format.js";
import { groupInk, ink } from "./palette.js";

export function linkMap(choose) {
  const canvas = h("canvas", { class: "square", role: "img", "aria-label": "Links" });
  const node = h("div", { class: "picture" }, canvas);
  let world,
    frame,
    selected,
    size = 0;
  const again = fitted(node, (width) => {
    size = width;
    draw();
  });

  canvas.addEventListener("click", (event) => {
    const i = near(event);
    if (i !== null) choose(i);
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("pointermove", (event) => {
    const i = near(event);
    if (i === null) return hideTip();
    const mine = frame.edges.filter(([a]) => a === i).sort((a, b) => b[2] - a[2]);
    showTip(
      event.clientX,
      event.clientY,
      h("b", {}, name(i)),
      ...mine.slice(0, 4).map(([, j, w]) => `listens to ${name(j)}: ${amount(w)}`),
      mine.length ? null : "has met nobody yet",
    );
  });
  return {
    node,
    canvas,
    show(now) {
      ({ world, frame, selected } = now);
      draw();
    },
    again,
    rows: () => [["client", "listens to", "weight"], ...frame.edges],
  };

  function name(i) {
    return world.names?.[i] ?? called(i, world.owners?.[i]);
  }

  function place(i) {
    const edge = 18,
      [x, y] = world.places[i];
    return [edge + ((size - 2 * edge) * (x + 1)) / 2, edge + ((size - 2 * edge) * (y + 1)) / 2];
  }

  function near(event) {
    if (!frame) return null;
    const box = canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let best = null,
      least = 18 * 18;
    for (let i = 0; i < world.clients; i += 1) {
      const [x, y] = place(i),
        d = (x - px) ** 2 + (y - py) ** 2;
      if (d < least) [best, least] = [i, d];
    }
    return best;
  }

  function draw() {
    if (!frame || !size) return;
    const ratio = devicePixelRatio || 1,
      pen = canvas.getContext("2d"),
      many = world.clients > 80;
    canvas.width = canvas.height = Math.round(size * ratio);
    pen.scale(ratio, ratio);
    pen.lineCap = "round";
    const line = (i, j, colour, width, alpha) => {
      const [ax, ay] = place(i),
        [bx, by] = place(j),
        bend = 0.08;
      pen.globalAlpha = alpha;
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.beginPath();
      pen.moveTo(ax, ay);
      pen.quadraticCurveTo((ax + bx) / 2 + bend * (by - ay), (ay + by) / 2 - bend * (bx - ax), bx, by);
      pen.stroke();
    };
    for (const [i, j, w] of frame.edges) {
      const share = Math.min(1, w / frame.top);
      const mine = i === selected;
      const colour = world.group[i] === world.group[j] ? groupInk(world.group[i]) : ink("soft");
      const wide = mine ? 1 + 3 * share : (many ? 0.4 : 0.6) + (many ? 1 : 2.2) * share;
      line(
        i,
        j,
        mine ? ink("accent") : colour,
        wide,
        mine ? 0.95 : many ? 0.04 + 0.18 * share : 0.2 + 0.45 * share,
      );
    }
    pen.setLineDash([2, 4]);
    for (const [speaker, listener] of frame.now) line(speaker, listener, ink("soft"), 1, 0.6);
    pen.setLineDash([]);
    pen.globalAlpha = 1;
    const active = new Set(frame.now.map(([, listener]) => listener));
    const largest = Math.max(...(world.sizes ?? [1]));
    const radius = (i) => (world.by ? 8 + 18 * Math.sqrt(world.sizes[i] / largest) : many ? 3 : 8);
    for (let i = 0; i < world.clients; i += 1) {
      const [x, y] = place(i);
      pen.beginPath();
      pen.arc(x, y, i === selected ? radius(i) + 3 : radius(i), 0, 7);
      pen.fillStyle = groupInk(world.group[i]);
      pen.fill();
      pen.lineWidth = i === selected ? 2.5 : 1.5;
      pen.strokeStyle = i === selected ? ink("accent") : active.has(i) && !many ? ink("text") : ink("card");
      pen.stroke();
      if (world.by) {
        pen.fillStyle = ink("text");
        pen.font = "600 12px system-ui, sans-serif";
        pen.textAlign = "center";
        pen.fillText(world.names[i], x, y + radius(i) + 14);
        continue;
      }
      if (many) continue;
      pen.fillStyle = ink("card");
      pen.font = "600 9px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.fillText(String(i), x, y + 0.5);
    }
    canvas.setAttribute(
      "aria-label",
      `Links at iteration ${frame.t}: ${frame.edges.length} strongest of ${world.clients} ` +
        (world.by ? "groups" : "clients"),
    );
  }
}
