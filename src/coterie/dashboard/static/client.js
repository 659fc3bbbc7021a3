// One client, and why it listens to whom it listens to.
import { chart } from "./chart.js";
import { h } from "./dom.js";
import { csvButton } from "./download.js";
import { amount, called, count, percent, plural, whole } from "./format.js";
import { bars } from "./labels.js";
import { wording } from "./metric.js";
import { groupColour, methodColour, series } from "./palette.js";
import { sortable } from "./table.js";

const sorting = {};
const dot = (colour) => h("i", { class: "dot", css: { background: colour } });

export function clientDetail(found, world, t, choose) {
  const { client, neighbours, owner, owners } = found;
  const beside = (j) => (owners[j] ? `${j} ${owners[j]}` : `${j}`);
  const drawn = { height: 200, length: world.length, mark: t };
  const card = (kind, title, note, get, ...inner) =>
    h(
      "figure",
      { class: `card ${kind}` },
      h(
        "figcaption",
        {},
        h("h3", {}, title),
        get && h("span", { class: "gets" }, get),
        h("p", { class: "note" }, note),
      ),
      inner,
    );

  const counted = () => [
    ["label", "training samples"],
    ...found.classes.map((label, k) => [label, found.labels[k]]),
  ];
  const told = () => [
    ["iteration", "kind", "client", ...(owner ? ["owner"] : []), "weight"],
    ...found.events.flatMap(({ t: at, kind, from, weight }) =>
      from.map((j, k) => [at, kind, j, ...(owner ? [owners[j]] : []), weight[k]]),
    ),
  ];
  const met = table(neighbours, choose, owner && owners);
  const its = ({ labels, classes, train }) =>
    classes.length
      ? card(
          "",
          "Its data",
          "training samples by label",
          csvButton(`Its data client ${client}`, counted),
          bars(labels, classes),
        )
      : card("", "Its data", plural(train, "training sample"));

  return h(
    "div",
    { class: "client", role: "group", "aria-label": called(client, owner) },
    headline(found, world.weighed),
    h(
      "div",
      { class: "cards" },
      its(found),
      card(
        "wide",
        "Its neighbours",
        heard(neighbours, t),
        neighbours.length > 0 && csvButton(`neighbours of client ${client}`, met.file),
        neighbours.length
          ? h("div", { class: "tall" }, met)
          : h("p", { class: "note" }, "It has heard nobody yet."),
      ),
      chart({
        ...drawn,
        title: "Weights over time",
        note: "of those it listens to most",
        from: 0,
        format: amount,
        lines: found.weights.map((w, k) => ({
          name: `to ${beside(w.client)}`,
          colour: series(k),
          t: w.t,
          y: w.weight,
          step: true,
        })),
      }),
      ...over(found, drawn),
      card(
        "full",
        "What it heard when",
        "the latest first; in brackets the weight it then gave",
        csvButton(`What it heard when client ${client}`, told),
        events(found.events, beside),
      ),
    ),
  );
}

function headline(
  { client, owner, curves, metric, groups, group, train, attacker, account, ...found },
  weighed,
) {
  const { words, full, gain: told, merit } = wording(metric);
  const own = curves.own.at(-1),
    alone = curves.local?.own.at(-1);
  const gain = alone !== undefined && own !== null && alone !== null ? merit(own) - merit(alone) : null;
  return h(
    "div",
    { class: "headline" },
    h("h2", {}, `Client ${client}`),
    h(
      "p",
      {},
      owner && h("span", { class: "tag owner", title: "whose samples it has" }, owner),
      groups > 1 && h("span", { class: "tag" }, dot(groupColour(group)), `group ${group}`),
      h("span", { class: "tag" }, plural(train, "training sample")),
      attacker && h("span", { class: "tag bad" }, "attacker"),
      h("span", { class: "tag" }, `${words("personal")} ${full(own)}`),
      gain !== null &&
        h(
          "span",
          { class: `tag ${["bad", "", "good"][1 + Math.sign(gain)]}` },
          `${told(gain)} against Local`,
        ),
      account.surely === "lost" && h("span", { class: "tag bad" }, "surely hurt"),
    ),
    h("p", { class: "why" }, account.text),
    h("p", { class: "why" }, why({ client, groups, group, ...found }, weighed)),
  );
}

function over({ curves, metric, confidence, classes, hue }, drawn) {
  const { title, full, tick, direction } = wording(metric);
  const itself = { name: "itself", colour: methodColour(hue), t: curves.t, y: curves.own };
  const twin = curves.local && {
    name: "Local",
    colour: "var(--alone)",
    t: curves.local.t,
    y: curves.local.own,
  };
  const own = `on its own ${classes.length ? "labels" : "samples"}; Local: the same client, learning alone`;
  return [
    chart({
      ...drawn,
      title: `${title()} against its Local twin`,
      format: full,
      tick,
      note: direction ? `${own}; ${direction}` : own,
      lines: [itself, twin].filter(Boolean),
    }),
    confidence.t.length > 0 &&
      chart({
        ...drawn,
        title: "Confidence",
        format: percent,
        tick: whole,
        from: 0,
        note: "the share that its own model keeps when it mixes",
        names: false,
        lines: [{ name: "confidence", colour: methodColour(hue), t: confidence.t, y: confidence.value }],
      }),
  ];
}

// owners: names by clients' numbers, if there are any.
function table(neighbours, choose, owners) {
  const most = Math.max(...neighbours.map((n) => n.weight), 1e-12);
  const farthest = Math.max(...neighbours.map((n) => n.distance ?? 0), 1e-12);
  const step = (other) =>
    h("button", { type: "button", class: "plain", onclick: () => choose(other) }, `client ${other}`);
  return sortable(
    [
      {
        title: "client",
        left: true,
        first: "asc",
        value: (n) => n.client,
        cell: (n) => [dot(groupColour(n.group)), step(n.client)],
      },
      owners && {
        title: "owner",
        left: true,
        first: "asc",
        value: (n) => owners[n.client],
        cell: (n) => owners[n.client],
      },
      {
        title: "last distance",
        first: "asc",
        value: (n) => n.distance,
        cell: (n) => gauge(n.distance, farthest, "var(--soft)"),
        note: "how differently the two models saw this client's data when it last heard that one",
      },
      { title: "weight", value: (n) => n.weight, cell: (n) => gauge(n.weight, most, "var(--accent)") },
      { title: "share", value: (n) => n.share, cell: (n) => percent(n.share), note: "of all it listens to" },
      { title: "heard", value: (n) => n.met, cell: (n) => `${n.met} ×` },
      { title: "last at", value: (n) => n.last, cell: (n) => count(n.last), note: "iteration" },
    ].filter(Boolean),
    neighbours.slice(0, 200),
    sorting,
  );
}

const gauge = (value, most, colour) =>
  h(
    "span",
    { class: "gauge" },
    h("i", { css: { width: `${Math.max(0, (56 * (value ?? 0)) / most)}px`, background: colour } }),
    amount(value),
  );

function events(found, beside) {
  if (!found.length) return h("p", { class: "note" }, "Nothing yet.");
  const given = (weight) => (weight === null ? "" : ` (${amount(weight)})`);
  return h(
    "ol",
    { class: "events tall", tabindex: 0 },
    found.map((event) =>
      h(
        "li",
        {},
        h("span", { class: "when" }, count(event.t)),
        h("span", { class: `kind ${event.kind}` }, event.kind === "mix" ? "mixed" : "adopted"),
        h(
          "span",
          {},
          event.from.map((j, k) => `${beside(j)}${given(event.weight[k])}`).join(", "),
          event.lost.length > 0 && h("small", {}, ` lost: ${event.lost.map(beside).join(", ")}`),
        ),
      ),
    ),
  );
}

// Says whether the last distances alone explain the weights of the table below, or what came before, too.
function heard(neighbours, t) {
  const known = neighbours.filter((n) => n.distance !== null);
  const ordered = known.every(
    (n, k) => !k || n.weight === known[k - 1].weight || n.distance >= known[k - 1].distance,
  );
  const when = t === undefined ? "" : ` by iteration ${count(t)}`;
  return (
    `whom it has heard${when}: how differently the two models last saw its data, and the weight it gives. ` +
    (known.length < 2
      ? ""
      : ordered
        ? "The nearer, the more it listens."
        : "A weight comes from all that was heard so far, not from the last distance alone, " +
          "so one that was nearer the last time may have less.")
  );
}

// One sentence: whom it listens to most, and what speaks for that.
function why({ client, owners, neighbours, groups, group }, weighed) {
  if (!weighed)
    return "Its method does not weigh its neighbours: it listens to all of them alike, or to nobody.";
  if (!neighbours.length) return `Client ${client} has heard nobody yet, so it trusts its own model alone.`;
  const [first] = neighbours,
    others = neighbours.length - 1;
  if (!first.weight) {
    return (
      `Client ${client} has heard ${plural(neighbours.length, "other")} and listens to none of them: ` +
      "no model saw its data alike enough."
    );
  }
  const nearer = neighbours.filter((n) => n.distance !== null && n.distance < first.distance).length;
  const rank =
    first.distance === null
      ? ""
      : nearer === 0
        ? ", the nearest model of all it has heard"
        : `, nearer than ${others - nearer} of the ${others} others it has heard`;
  const own = neighbours
    .filter((n) => n.weight > 0 && n.group === group)
    .reduce((sum, n) => sum + n.share, 0);
  return (
    `It listens most to ${called(first.client, owners[first.client])}: ${percent(first.share, 0)} of its attention, ` +
    `at a last distance of ${amount(first.distance)}${rank}.` +
    (groups > 1 ? ` ${percent(own, 0)} of its attention goes to its own group.` : "")
  );
}
