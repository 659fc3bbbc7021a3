// One client, and why it listens to whom it listens to.
import { chart } from "./chart.js";
import { h } from "./dom.js";
import { amount, count, percent, plural, points, whole } from "./format.js";
import { bars } from "./labels.js";
import { groupColour, series } from "./palette.js";
import { sortable } from "./table.js";

const sorting = {};

export function person(found, network, t, choose) {
  const { client, neighbours, accuracy, confidence } = found;
  const most = Math.max(...neighbours.map((n) => n.weight), 1e-12);
  const farthest = Math.max(...neighbours.map((n) => n.distance ?? 0), 1e-12);
  const own = accuracy.own.at(-1), alone = accuracy.local?.own.at(-1);
  const step = (other) => h("button", { type: "button", class: "plain", onclick: () => choose(other) }, `client ${other}`);

  return h("section", { class: "person", "aria-label": `client ${client}` },
    h("div", { class: "headline" },
      h("h2", {}, `Client ${client}`),
      h("p", {},
        found.groups > 1 && h("span", { class: "tag" }, h("i", { class: "dot", css: { background: groupColour(found.group) } }), `group ${found.group}`),
        h("span", { class: "tag" }, plural(found.train, "training sample")),
        found.attacker && h("span", { class: "tag bad" }, "attacker"),
        h("span", { class: "tag" }, `personal accuracy ${percent(own)}`),
        alone !== undefined && own !== null && alone !== null && h("span", { class: `tag ${own < alone ? "bad" : "good"}` }, `${points(own - alone)} against Local`)),
      h("p", { class: "why" }, why(found, network.weighed))),
    h("div", { class: "cards" },
      h("figure", { class: "card" }, h("figcaption", {}, h("h3", {}, "Its data"), h("p", { class: "note" }, "training samples by label")),
        bars(found.labels, found.classes)),
      h("figure", { class: "card wide" },
        h("figcaption", {}, h("h3", {}, "Its neighbours"),
          h("p", { class: "note" }, `whom it has heard${t === undefined ? "" : ` by iteration ${count(t)}`}: the nearer their models see its data, the more it listens`)),
        neighbours.length ? h("div", { class: "tall" }, sortable([
          { title: "client", left: true, first: "asc", value: (n) => n.client, cell: (n) => [h("i", { class: "dot", css: { background: groupColour(n.group) } }), step(n.client)] },
          { title: "distance", first: "asc", value: (n) => n.distance, cell: (n) => gauge(n.distance, farthest, "var(--soft)"), note: "how differently the two models see this client's data" },
          { title: "weight", value: (n) => n.weight, cell: (n) => gauge(n.weight, most, "var(--accent)") },
          { title: "share", value: (n) => n.share, cell: (n) => percent(n.share), note: "of all it listens to" },
          { title: "heard", value: (n) => n.met, cell: (n) => `${n.met} ×` },
          { title: "last at", value: (n) => n.last, cell: (n) => count(n.last), note: "iteration" },
        ], neighbours.slice(0, 200), sorting)) : h("p", { class: "note" }, "It has heard nobody yet.")),
      chart({ title: "Weights over time", note: "of those it listens to most", height: 200, length: network.length, mark: t, from: 0,
        lines: found.weights.map((w, k) => ({ name: `to ${w.client}`, colour: series(k), t: w.t, y: w.weight, step: true })), format: amount }),
      chart({ title: "Accuracy against its Local twin", note: "on its own labels; Local: the same client, learning alone", height: 200, length: network.length, mark: t,
        lines: [{ name: "itself", colour: "var(--m0)", t: accuracy.t, y: accuracy.own },
          accuracy.local && { name: "Local", colour: "var(--alone)", t: accuracy.local.t, y: accuracy.local.own }].filter(Boolean), format: percent, tick: whole }),
      confidence.t.length > 0 && chart({ title: "Confidence", note: "the share that its own model keeps when it mixes", height: 200, length: network.length, mark: t, from: 0, names: false,
        lines: [{ name: "confidence", colour: "var(--m2)", t: confidence.t, y: confidence.value }], format: percent, tick: whole }),
      h("figure", { class: "card full" },
        h("figcaption", {}, h("h3", {}, "What it heard when"), h("p", { class: "note" }, "the latest first; in brackets the weight it then gave")),
        found.events.length ? h("ol", { class: "events tall", tabindex: 0 }, found.events.map((event) => h("li", {},
          h("span", { class: "when" }, count(event.t)),
          h("span", { class: `kind ${event.kind}` }, event.kind === "woke" ? "asked" : "was sent"),
          h("span", {}, event.from.map((j, k) => `${j}${event.weight[k] === null ? "" : ` (${amount(event.weight[k])})`}`).join(", "),
            event.lost.length > 0 && h("small", {}, ` lost: ${event.lost.join(", ")}`)))))
          : h("p", { class: "note" }, "Nothing yet."))));
}

const gauge = (value, most, colour) => h("span", { class: "gauge" },
  h("i", { css: { width: `${Math.max(0, 56 * (value ?? 0) / most)}px`, background: colour } }), amount(value));

// One sentence: whom it listens to most, and what speaks for that.
function why({ client, neighbours, groups, group }, weighed) {
  if (!weighed) return "Its method does not weigh its neighbours: it listens to all of them alike, or to nobody.";
  if (!neighbours.length) return `Client ${client} has heard nobody yet, so it trusts its own model alone.`;
  const [first] = neighbours;
  if (!first.weight) return `Client ${client} has heard ${plural(neighbours.length, "other")} and listens to none of them: no model saw its data alike enough.`;
  const nearer = neighbours.filter((n) => n.distance !== null && n.distance < first.distance).length;
  const rank = first.distance === null ? "" : nearer === 0 ? ", the nearest model of all it has heard" : `, nearer than ${neighbours.length - 1 - nearer} of the ${neighbours.length - 1} others it has heard`;
  const heard = neighbours.filter((n) => n.weight > 0), same = heard.filter((n) => n.group === group).reduce((sum, n) => sum + n.share, 0);
  return `It listens most to client ${first.client}: ${percent(first.share, 0)} of its attention, at distance ${amount(first.distance)}${rank}.` +
    (groups > 1 ? ` ${percent(same, 0)} of its attention goes to its own group.` : "");
}
