// Who listens to whom: heat map and links at one iteration, a slider that replays the run, one client explained.
import { choice, h, problem, put } from "./dom.js";
import { count, percent } from "./format.js";
import { heatMap } from "./heat.js";
import { linkMap } from "./links.js";
import { person } from "./person.js";

const ORDERS = { group: "true group", cluster: "who listens to whom", number: "number" };
const STEP = 90;

export async function graph(source, query, remember) {
  const node = h("div", { class: "view graph" });
  const state = { method: query.method, seed: query.seed, client: Number(query.client ?? 0), order: query.order, at: null, playing: null };
  let network, frame, drawn, wanted = 0;
  const heat = heatMap(choose), links = linkMap(choose);
  const detail = h("div", {}), tools = h("div", { class: "tools" }), facts = h("p", { class: "facts", "aria-live": "off" });
  const slider = h("input", { type: "range", min: 0, "aria-label": "iteration", oninput: () => { stop(); move(Number(slider.value)); } });
  const button = h("button", { type: "button", class: "play", onclick: () => (state.playing ? stop() : play()) }, "▶ Replay");
  const reading = h("p", { class: "reading", hidden: true });

  await load();
  return { node, refresh: load, close: stop, keys: { " ": () => button.click(), j: () => step(1), k: () => step(-1) } };

  async function load() {
    network = await source.get("network", { method: state.method, seed: state.seed });
    if (!network.worlds.length || !network.weighed) {
      put(node, h("div", { class: "tools" }, network.worlds.length > 0 && pick()), problem("No graph here yet",
        "No client has reported weights so far: only methods that learn whom to listen to, such as KD-PDFL, have a graph, from their first exchange on."), detail);
      frame = { t: undefined };
      if (network.worlds.length) await explain(wanted);
      return;
    }
    [state.method, state.seed] = [network.method, network.seed];
    state.order ??= new Set(network.group).size > 1 ? "group" : "cluster";
    state.client = Math.min(state.client, network.clients - 1);
    slider.max = network.times.length - 1;
    if (!node.contains(heat.node)) build();
    put(tools, pick(), choice("ordered by", Object.keys(network.orders).map((k) => [k, ORDERS[k]]), state.order, (order) => { state.order = order; if (network.shared) move(); else show(); }));
    reading.hidden = network.complete >= 1;
    reading.textContent = `Reading the exchanges: ${percent(network.complete, 0)} so far; until then, the latest ones are shown.`;
    const now = [state.method, state.seed, network.exchanges, network.complete >= 1].join();
    if (drawn !== now) await move(state.at === null ? network.times.length - 1 : Math.min(state.at, network.times.length - 1));
    drawn = now;
    if (network.complete < 1) setTimeout(() => node.isConnected && load(), 0);
  }

  function pick() {
    const { method } = network, methods = [...new Set([method, ...network.worlds.map((w) => w.method)])];
    const seeds = [...new Set([network.seed, ...network.worlds.filter((w) => w.method === method).map((w) => w.seed)])];
    const change = (next) => { Object.assign(state, next, { at: null }); load(); };
    return [choice("method", methods.map((m) => [m, m]), method, (m) => change({ method: m, seed: network.worlds.find((w) => w.method === m).seed })),
      choice("seed", seeds.map((s) => [s, s]), network.seed, (seed) => change({ seed }))];
  }

  function build() {
    put(node, tools, reading,
      h("div", { class: "pair" },
        h("figure", { class: "card" }, h("figcaption", {}, h("h3", {}, "Who listens to whom"),
          h("p", { class: "note" }, "row: the client that listens; column: the client it listens to")), heat.node),
        h("figure", { class: "card" }, h("figcaption", {}, h("h3", {}, "The same as links"),
          h("p", { class: "note" }, "each client's strongest links; dotted: who hears whom just now")), links.node)),
      h("div", { class: "time card" }, button, slider, facts),
      detail);
  }

  // Draws iteration number k of network.times; while one is under way only the latest wish counts.
  async function move(k = Number(slider.value)) {
    const ticket = ++wanted;
    slider.value = k;
    state.at = k === network.times.length - 1 ? null : k;
    const t = network.times[k];
    const order = network.shared ? state.order : undefined;
    const found = await source.get("frame", { method: state.method, seed: state.seed, t, order });
    if (ticket !== wanted) return;
    frame = found;
    show();
    if (!state.playing) await explain(ticket);
  }

  function show() {
    const now = { network, frame, order: network.orders[state.order], selected: state.client };
    heat.show(now);
    links.show(now);
    slider.setAttribute("aria-valuetext", `iteration ${frame.t}`);
    put(facts, h("b", {}, `iteration ${count(frame.t)}`), `${percent(frame.met, 0)} of all pairs have met`,
      frame.auc !== null && h("span", { title: "how well the weights tell the own group from the others; 0.5 is chance" }, `graph AUC ${frame.auc.toFixed(2)}`));
  }

  async function explain(ticket) {
    const t = source.live ? frame.t : undefined, { client } = state;
    const found = await source.get("person", { method: state.method, seed: state.seed, client, t }).catch((error) => error);
    if (ticket !== wanted || client !== state.client) return;
    if (found.complete < 1) setTimeout(() => node.isConnected && ticket === wanted && client === state.client && explain(ticket), 0);
    put(detail, found instanceof Error ? problem(`Client ${client}`, found.message) : person(found, network, t, choose));
  }

  function choose(client) {
    state.client = client;
    remember?.({ method: state.method, seed: state.seed, client });
    show();
    explain(wanted);
  }

  function step(by) {
    const order = network.orders[state.order];
    choose(order[Math.min(order.length - 1, Math.max(0, order.indexOf(state.client) + by))]);
  }

  function play() {
    button.textContent = "❚❚ Pause";
    let k = state.at ?? 0;
    const by = Math.max(1, Math.round(network.times.length / 200));
    state.playing = setInterval(async () => {
      k += by;
      if (k >= network.times.length - 1 || !node.isConnected) { stop(); k = network.times.length - 1; }
      await move(Math.min(k, network.times.length - 1));
    }, STEP);
  }

  function stop() {
    clearInterval(state.playing);
    state.playing = null;
    button.textContent = "▶ Replay";
  }
}
