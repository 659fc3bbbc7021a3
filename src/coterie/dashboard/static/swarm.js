// A live swarm, seen through some of its peers: members, who listens to whom, exchanges, refusals and why.
import { choice, h, problem, put, unseen } from "./dom.js";
import { csvButton, pngButton } from "./download.js";
import { amount, bytes, count, duration, NONE, plural } from "./format.js";
import { heatMap } from "./heat.js";
import { pill, progress } from "./overview.js";
import { wording } from "./metric.js";
import { sortable } from "./table.js";

const STATES = ["alive", "listed", "suspect", "dead", "left", "silent"];
const KINDS = {
  mix: "mixed",
  adopt: "adopted",
  told: "sent to",
  missed: "no answer from",
  refused: "refused",
  start: "started",
  left: "said goodbye",
};
const VIEWS = ["status", "members", "weights", "exchanges", "refusals"];
const ago = (seconds) => (seconds === null ? "before" : seconds < 1 ? "now" : `${duration(seconds)} ago`);
const state = (name, more) => h("span", { class: `pill ${name}`, title: more }, name);

export async function swarm(source, query, remember, toRun) {
  const sorting = {},
    refused = {},
    seen = {};
  let chosen = query.peer,
    names = [],
    offered = null,
    latest = [];
  const top = h("div", { class: "view" }),
    heat = heatMap((i) => choose(names[i]));
  const part = (title, note, gets, ...inner) =>
    h(
      "figure",
      { class: "card" },
      h(
        "figcaption",
        {},
        h("h3", {}, title),
        h("span", { class: "gets" }, gets),
        note && h("p", { class: "note" }, note),
      ),
      inner,
    );
  const members = h("div", { class: "tall" }),
    own = h("div", { class: "tall" }),
    refusals = h("div", { class: "tall" });
  const asked = h("div", { class: "tools" }),
    feed = h("ol", { class: "events tall", tabindex: 0, "aria-label": "exchanges, the latest first" });
  const nothing = h("p", { class: "note" }, "None of these peers has reported weights so far.");
  const shown = (place) => place.querySelector(".sortable").file();
  const buttons = {
    members: csvButton("Members", () => shown(members)),
    exchanges: csvButton("Exchanges", () => told(latest)),
    map: h(
      "span",
      { class: "gets" },
      csvButton("Who listens to whom", heat.rows),
      pngButton("Who listens to whom", () => heat.canvas),
    ),
    own: csvButton("One peer and the others", () => shown(own)),
    refusals: csvButton("Refused by reason", () => shown(refusals)),
  };
  const map = part(
    "Who listens to whom",
    "row: the peer that listens; column: the peer it listens to",
    buttons.map,
    heat.node,
    nothing,
  );
  const node = h(
    "div",
    { class: "view swarm" },
    top,
    h(
      "div",
      { class: "cards two" },
      part("Members", null, buttons.members, members),
      part("Exchanges as they happen", null, buttons.exchanges, feed),
    ),
    h("div", { class: "cards two" }, map, part("One peer and the others", null, buttons.own, asked, own)),
    part("Refused, by reason", null, buttons.refusals, refusals),
  );
  await load();
  return { node, refresh: load, keys: { j: () => step(1), k: () => step(-1) } };

  async function load() {
    const [[status, everybody, weights, exchanges, reasons], peer] = await Promise.all([
      Promise.all(VIEWS.map((name) => source.get(name))),
      source.get("peer", { name: chosen }),
    ]);
    ({ names } = weights);
    chosen ??= peer.name;
    put(top, head(status, everybody), unseen("h2", "Live swarm"), troubles(status, toRun));
    put(members, table(everybody, status.task));
    heat.node.hidden = buttons.map.hidden = !(nothing.hidden = weights.met > 0);
    if (weights.met)
      heat.show({
        world: { names },
        frame: { ...weights, when: "now" },
        order: names.map((_, k) => k),
        selected: names.indexOf(peer.name),
      });
    view(peer);
    latest = exchanges;
    buttons.refusals.hidden = !reasons.length;
    put(feed, exchanges.length ? exchanges.map(event) : h("li", { class: "note" }, "None yet."));
    put(
      refusals,
      reasons.length ? reasonTable(reasons) : h("p", { class: "note" }, "Nothing has been refused."),
    );
  }

  async function choose(name) {
    chosen = name;
    remember?.({ peer: name });
    await load();
  }

  function step(by) {
    const at = Math.max(0, names.indexOf(chosen)) + by;
    choose(names[Math.min(names.length - 1, Math.max(0, at))]);
  }

  function table(everybody, task) {
    const said = wording(task.metrics[0]),
      where = task.has_classes ? "label distribution" : "samples";
    return sortable(
      [
        {
          title: "peer",
          left: true,
          first: "asc",
          value: (m) => m.name,
          cell: (m) => h("button", { type: "button", class: "plain", onclick: () => choose(m.name) }, m.name),
        },
        {
          title: "state",
          left: true,
          first: "asc",
          value: (m) => STATES.indexOf(m.state),
          csv: (m) => m.state,
          cell: (m) => [
            state(m.state, opinions(m)),
            m.silent !== null && h("small", { class: "bad" }, ` no answer for ${duration(m.silent)}`),
          ],
        },
        {
          title: "iteration",
          value: (m) => m.t,
          cell: (m) => `${count(m.t)}${m.phase === "finished" ? " ✓" : ""}`,
        },
        {
          title: said.words(),
          note: [`personal: on its own ${where}`, said.direction].filter(Boolean).join("; "),
          first: said.first,
          value: (m) => m.personal,
          cell: (m) => said.full(m.personal),
        },
        { title: "exchanges", value: (m) => m.exchanges, cell: (m) => count(m.exchanges) },
        {
          title: "last heard",
          first: "asc",
          value: (m) => m.seconds,
          cell: (m) => (m.seconds === null ? NONE : ago(m.seconds)),
        },
        { title: "address", left: true, first: "asc", value: (m) => m.address, cell: (m) => m.address },
      ],
      everybody,
      sorting,
    );
  }

  function view(peer) {
    const options = [...new Set([peer.name, ...peer.names])];
    if (offered !== (offered = options.join()))
      put(
        asked,
        choice(
          "seen by",
          options.map((name) => [name, name]),
          peer.name,
          choose,
        ),
      ); // an open list stays open
    buttons.own.hidden = !peer.asked;
    if (!peer.asked) {
      put(
        own,
        h(
          "p",
          { class: "note" },
          `${peer.name} is not asked here, so how it sees the others is not known; name it with --peer.`,
        ),
      );
      return;
    }
    const most = Math.max(...peer.members.map((m) => m.weight ?? 0), 1e-12);
    put(
      own,
      sortable(
        [
          { title: "member", left: true, first: "asc", value: (m) => m.name, cell: (m) => m.name },
          {
            title: "state",
            left: true,
            first: "asc",
            value: (m) => STATES.indexOf(m.state),
            csv: (m) => m.state,
            cell: (m) => state(m.state),
          },
          {
            title: "weight",
            note: "how much it was listened to the last time",
            value: (m) => m.weight,
            cell: (m) =>
              h(
                "span",
                { class: "gauge" },
                h("i", { css: { width: `${(44 * (m.weight ?? 0)) / most}px`, background: "var(--accent)" } }),
                amount(m.weight),
              ),
          },
          {
            title: "heard",
            first: "asc",
            value: (m) => m.heard,
            cell: (m) => (m.heard === null ? "never" : ago(m.heard)),
          },
          {
            title: "pulled",
            note: "models that came from it",
            value: (m) => m.pulled,
            cell: (m) => count(m.pulled),
          },
          {
            title: "pushed",
            note: "models that it took",
            value: (m) => m.pushed,
            cell: (m) => count(m.pushed),
          },
          {
            title: "missed",
            note: "calls without an answer",
            value: (m) => m.missed,
            cell: (m) => count(m.missed),
          },
          { title: "refused", value: (m) => m.refused, cell: (m) => count(m.refused) },
        ],
        peer.members,
        seen,
      ),
    );
  }

  function reasonTable(reasons) {
    return sortable(
      [
        {
          title: "reason",
          left: true,
          first: "asc",
          value: (r) => r.reason,
          cell: (r) => h("b", {}, r.reason),
        },
        { title: "times", value: (r) => r.count, cell: (r) => count(r.count) },
        { title: "last", first: "asc", value: (r) => r.seconds, cell: (r) => ago(r.seconds) },
        {
          title: "with",
          left: true,
          first: "asc",
          value: (r) => Object.keys(r.peers).join(),
          csv: (r) =>
            Object.entries(r.peers)
              .map(([peer, n]) => `${peer} ${n}`)
              .join(", "),
          cell: (r) =>
            Object.entries(r.peers)
              .map(([peer, n]) => `${peer} ${count(n)}×`)
              .join(", ") || NONE,
        },
        {
          title: "what was said",
          left: true,
          first: "asc",
          value: (r) => r.text,
          cell: (r) => h("span", { class: "said" }, r.text || NONE),
        },
      ],
      reasons,
      refused,
    );
  }
}

function head(status, everybody) {
  const said = wording(status.task.metrics[0]);
  const tally = STATES.map((name) => [name, everybody.filter((m) => m.state === name).length]).filter(
    ([, n]) => n,
  );
  return h(
    "div",
    { class: "headline" },
    h("h1", {}, plural(everybody.length, "member")),
    h(
      "p",
      {},
      tally.map(([name, n]) => h("span", { class: `pill ${name}` }, `${count(n)} ${name}`)),
    ),
    h(
      "div",
      { class: "facts-row" },
      pill(status),
      progress(status),
      Object.entries(status.methods).map(([method, v]) =>
        h("span", {}, `${method} ${said.full(v)} ${said.words("personal")}`),
      ),
      h("span", {}, plural(status.exchanges, "exchange")),
      h("span", {}, `${bytes(status.bytes)} sent`),
      status.answering > 0 &&
        status.answering < everybody.length &&
        h("span", {}, `seen through ${plural(status.answering, "peer")}`),
    ),
  );
}

function troubles(status, toRun) {
  const results = status.run && h("p", {}, h("a", { href: toRun(status.run) }, "What it came to"));
  if (status.state === "ended")
    return h(
      "section",
      { class: "card", role: "status" },
      h("h3", {}, "The swarm has ended"),
      h("p", {}, "All its peers have said goodbye. Below is what they said last."),
      results,
    );
  if (status.state === "silent")
    return problem(
      "No peer answers",
      `The last answer came ${ago(status.seconds)}. This is what they said last; ` +
        "the page goes on by itself when one is back.",
      list(status.problems),
      results,
    );
  return (
    status.problems.length > 0 &&
    problem(
      status.answering < status.watched
        ? `${plural(status.watched - status.answering, "peer")} of ${count(status.watched)} without an answer`
        : "A peer reports a fault",
      list(status.problems),
    )
  );
}

const list = (problems) =>
  h(
    "ul",
    {},
    problems.map(({ peer, text }) => h("li", {}, h("b", {}, peer), `: ${text}`)),
  );

const opinions = (m) =>
  Object.entries(m.views)
    .map(([name, n]) => `${plural(n, "peer")}: ${name}`)
    .join(", ") || null;

// Exchanges as a file has them: a row for each peer that took part, or one where nobody else did.
function told(exchanges) {
  return [
    ["seconds ago", "peer", "kind", "iteration", "other peer", "weight", "reason", "text"],
    ...exchanges.flatMap((e) =>
      (e.peers.length ? e.peers : [null]).map((other, k) => [
        e.seconds,
        e.peer,
        e.kind,
        e.t,
        other,
        e.weight?.[k],
        e.reason,
        e.text,
      ]),
    ),
  ];
}

function event(e) {
  const whom = e.peers.map((peer, k) => `${peer}${e.weight ? ` (${amount(e.weight[k])})` : ""}`).join(", ");
  return h(
    "li",
    { class: "swarm-event" },
    h("span", { class: "when" }, ago(e.seconds)),
    h("b", {}, e.peer),
    h(
      "span",
      { class: `kind ${e.kind === "missed" || e.kind === "refused" ? "bad" : e.kind}` },
      KINDS[e.kind] ?? e.kind,
    ),
    h(
      "span",
      {},
      whom,
      e.reason && `${whom && ", "}${e.reason}`,
      e.text && h("small", {}, ` ${e.text}`),
      e.t !== null && h("small", {}, ` iteration ${count(e.t)}`),
    ),
  );
}
