// A live swarm, seen through one of its peers: who is a member, what is exchanged, what was refused and why.
import { h, put } from "./dom.js";
import { amount, count, duration, plural } from "./format.js";
import { sortable } from "./table.js";

const STATES = ["alive", "suspect", "dead", "left"];
const KINDS = { wake: "asked", adopt: "took from", told: "sent to" };

export async function swarm(source) {
  const node = h("div", { class: "view swarm" });
  const sorting = {}, refused = {};
  await load();
  return { node, refresh: load, keys: {} };

  async function load() {
    const [members, exchanges, refusals] = await Promise.all(["members", "exchanges", "refusals"].map((view) => source.get(view)));
    const tally = STATES.map((state) => [state, members.filter((m) => m.state === state).length]).filter(([, n]) => n);
    put(node,
      h("div", { class: "headline" }, h("h1", {}, plural(members.length, "member")),
        h("p", {}, tally.map(([state, n]) => h("span", { class: `pill ${state}` }, `${count(n)} ${state}`)))),
      h("div", { class: "cards two" },
        h("section", { class: "card" }, h("h3", {}, "Members"), h("div", { class: "tall" }, sortable([
          { title: "peer", left: true, first: "asc", value: (m) => m.name, cell: (m) => m.name },
          { title: "state", left: true, first: "asc", value: (m) => STATES.indexOf(m.state), cell: (m) => h("span", { class: `pill ${m.state}` }, m.state) },
          { title: "last heard", first: "asc", value: (m) => m.seconds, cell: (m) => `${duration(m.seconds)} ago` },
          { title: "address", left: true, first: "asc", value: (m) => m.address, cell: (m) => m.address },
        ], members, sorting))),
        h("section", { class: "card" }, h("h3", {}, "Refused, by reason"), refusals.length ? sortable([
          { title: "reason", left: true, first: "asc", value: (r) => r.reason, cell: (r) => r.reason },
          { title: "times", value: (r) => r.count, cell: (r) => count(r.count) },
          { title: "last from", left: true, first: "asc", value: (r) => r.peer, cell: (r) => h("span", { title: r.text }, r.peer) },
          { title: "last", first: "asc", value: (r) => r.seconds, cell: (r) => `${duration(r.seconds)} ago` },
        ], refusals, refused) : h("p", { class: "note" }, "Nothing has been refused."))),
      h("section", { class: "card" }, h("h3", {}, "Exchanges as they happen"),
        exchanges.length ? h("ol", { class: "events tall", tabindex: 0 }, exchanges.map((e) => h("li", { class: "swarm-event" },
          h("span", { class: "when" }, `${duration(e.seconds)} ago`), h("b", {}, e.peer), h("span", { class: "kind" }, KINDS[e.kind] ?? e.kind),
          h("span", {}, e.peers.map((peer, k) => `${peer}${e.weight ? ` (${amount(e.weight[k])})` : ""}`).join(", ")))))
          : h("p", { class: "note" }, "None yet.")));
  }
}
