// Who listens to whom: heat map and links at one iteration, a slider that replays the run, one client.
import { choice, h, problem, put } from "./dom.js";
import { csvButton, pngButton } from "./download.js";
import { count, percent } from "./format.js";
import { heatMap } from "./heat.js";
import { linkMap } from "./links.js";
import { groupColour } from "./palette.js";
import { clientDetail } from "./client.js";

const ORDERS = { group: "true group", cluster: "who listens to whom", number: "number" };
const given = (client) => (/^\d+$/.test(client) ? Number(client) : client); // a number, or an owner's name
const STEP = 90,
  GROUPS = 12;

export async function graph(source, query, remember) {
  const node = h("div", { class: "view graph" });
  const state = {
    method: query.method,
    seed: query.seed,
    client: given(query.client ?? "0"),
    order: query.order,
    t: query.t === undefined ? null : Number(query.t),
    playing: null,
  }; // t: null follows the end
  let world,
    frame,
    drawn,
    chosen = query.client !== undefined,
    wanted = 0;
  const heat = heatMap(chooseShown),
    links = linkMap(chooseShown);
  const detail = h("div", {}),
    tools = h("div", { class: "tools" }),
    legend = h("div", { class: "legend groups" });
  const now = h("b"),
    facts = h("p", { class: "facts", "aria-live": "off" }, now);
  const measured = h("span", { class: "note" });
  const slider = h("input", {
    type: "range",
    min: 0,
    "aria-label": "iteration",
    oninput: () => {
      stop();
      move(Number(slider.value));
    },
    onchange: settle,
  });
  const button = h("button", {
    type: "button",
    class: "play",
    onclick: () => (state.playing ? pause() : play()),
  });
  const reading = h("p", { class: "reading", hidden: true });
  label("▶", "Replay");

  await load();
  return {
    node,
    refresh: load,
    close: stop,
    keys: { " ": () => button.click(), j: () => step(1), k: () => step(-1) },
  };

  async function load() {
    world = await source.get("graph", { method: state.method, seed: state.seed });
    if (world.recorded && !chosen) state.client = world.first;
    if (typeof state.client === "string") state.client = owned(state.client) ?? state.client;
    if (!world.worlds.length || !world.weighed) {
      put(
        node,
        h("div", { class: "tools" }, world.worlds.length > 0 && pick()),
        problem(
          "No graph here yet",
          "No client has reported weights so far: only methods that learn whom to listen to, such as " +
            "KD-PDFL, have a graph, from their first exchange on.",
        ),
        detail,
      );
      frame = { t: undefined };
      if (world.worlds.length) await explain(wanted);
      return;
    }
    [state.method, state.seed] = [world.method, world.seed];
    if (!world.orders) {
      put(
        node,
        h("div", { class: "tools" }, pick(), clientBox()),
        problem(
          "Too many clients for a picture",
          `The run has ${world.recorded}, and nothing is known that would group them.`,
        ),
        detail,
      );
      frame = { t: undefined };
      await explain(wanted);
      return;
    }
    const groups = [...new Set(world.group)].sort((a, b) => a - b);
    if (!(state.order in world.orders))
      state.order = world.by ? "number" : groups.length > 1 && world.orders.group ? "group" : "cluster";
    if (!world.by && typeof state.client === "number")
      state.client = Math.min(state.client, world.clients - 1);
    slider.max = world.times.length - 1;
    if (!node.contains(heat.node)) build();
    put(
      tools,
      pick(),
      world.by
        ? clientBox()
        : choice(
            "ordered by",
            Object.keys(world.orders).map((k) => [k, ORDERS[k]]),
            state.order,
            (order) => {
              state.order = order;
              settle();
              if (world.shared) move();
              else show();
            },
          ),
      measured,
    );
    put(
      legend,
      world.by &&
        h(
          "span",
          {},
          `By ${world.by}: ${world.names.map((n, k) => `${n} (${count(world.sizes[k])})`).join(", ")}` +
            (world.recorded ? `; recorded: ${world.recorded}` : ""),
        ),
      !world.by &&
        groups.length > 1 && [
          groups
            .slice(0, GROUPS)
            .map((k) =>
              h("span", { class: "key" }, h("i", { css: { background: groupColour(k) } }), `group ${k}`),
            ),
          groups.length > GROUPS && h("span", {}, `and ${groups.length - GROUPS} more, in the same colours`),
        ],
    );
    reading.hidden = world.complete >= 1;
    reading.textContent =
      `Reading the exchanges: ${percent(world.complete, 0)} so far; ` +
      "until then, the latest ones are shown.";
    const known = [state.method, state.seed, world.exchanges, world.complete >= 1].join();
    if (drawn !== known) await move(place());
    drawn = known;
    if (world.complete < 1) setTimeout(() => node.isConnected && load(), 0);
  }

  // Where on the slider the iteration is that was chosen: the last one that is not after it.
  function place() {
    const end = world.times.length - 1;
    if (state.t === null) return end;
    const after = world.times.findIndex((t) => t > state.t);
    return after < 0 ? end : Math.max(0, after - 1);
  }

  function pick() {
    const { method } = world,
      methods = [...new Set([method, ...world.worlds.map((w) => w.method)])];
    const own = world.worlds.filter((w) => w.method === method).map((w) => w.seed);
    const change = (next) => {
      Object.assign(state, next, { t: null });
      settle();
      load();
    };
    return [
      choice(
        "method",
        methods.map((m) => [m, m]),
        method,
        (m) => change({ method: m, seed: world.worlds.find((w) => w.method === m).seed }),
      ),
      choice(
        "seed",
        [...new Set([world.seed, ...own])].map((s) => [s, s]),
        world.seed,
        (seed) => change({ seed }),
      ),
    ];
  }

  // The first client of the owner of that name, where a picture shows clients one by one.
  function owned(name) {
    const found = world.owners?.findIndex((owner) => owner.toLowerCase() === name.toLowerCase()) ?? -1;
    return found < 0 ? null : found;
  }

  // The client that is explained below, by number or owner, where no picture shows clients one by one.
  function clientBox() {
    const box = h("input", {
      ...(world.named ? { type: "text", placeholder: "number or owner" } : { type: "number", min: 0 }),
      class: "who",
      value: state.client,
      onchange: () => choose(given(box.value)),
    });
    return h("label", { class: "choice" }, "client", box);
  }

  function build() {
    const picture = (title, note, map) =>
      h(
        "figure",
        { class: "card" },
        h(
          "figcaption",
          {},
          h("h3", {}, title),
          h(
            "span",
            { class: "gets" },
            csvButton(title, map.rows),
            pngButton(title, () => map.canvas),
          ),
          h("p", { class: "note" }, note),
        ),
        map.node,
      );
    put(
      node,
      tools,
      reading,
      legend,
      h(
        "div",
        { class: "pair" },
        picture(
          "Who listens to whom",
          world.by
            ? "row: the group that listens; column: the group it listens to; the mean weight of pairs that met"
            : "row: the client that listens; column: the client it listens to",
          heat,
        ),
        picture(
          "The same as links",
          `each ${world.by ? "group" : "client"}'s strongest links; dotted: who hears whom just now`,
          links,
        ),
      ),
      h("div", { class: "time card" }, button, slider, facts),
      detail,
    );
  }

  // Draws iteration number k of world.times; while one is under way only the latest wish counts.
  async function move(k = Number(slider.value)) {
    const ticket = ++wanted;
    slider.value = k;
    const t = world.times[k];
    state.t = k === world.times.length - 1 ? null : t;
    const order = world.shared ? state.order : undefined;
    const found = await source.get("frame", { method: state.method, seed: state.seed, t, order });
    if (ticket !== wanted) return;
    frame = found;
    show();
    if (!state.playing) await explain(ticket);
  }

  function show() {
    const selected = world.by ? world.members.findIndex((all) => all.includes(state.client)) : state.client;
    const here = { world, frame, order: world.orders[state.order], selected };
    heat.show(here);
    links.show(here);
    slider.setAttribute("aria-valuetext", `iteration ${frame.t}`);
    now.textContent = `iteration ${count(frame.t)}`;
    const met = frame.met < 1 ? Math.min(frame.met, 0.99) : 1; // all only if it is all
    put(
      measured,
      world.by ? `${count(frame.pairs)} pairs have met` : `${percent(met, 0)} of all pairs have met`,
      frame.auc !== null &&
        h(
          "span",
          {
            title: "how well the weights tell the own group from the others; 0.5 is chance",
          },
          `, graph AUC ${frame.auc.toFixed(2)}`,
        ),
    );
  }

  async function explain(ticket) {
    const t = source.live ? frame.t : undefined,
      { client } = state;
    const asked = { method: state.method, seed: state.seed, client, t };
    const found = await source.get("client", asked).catch((error) => error);
    const current = () => ticket === wanted && client === state.client;
    if (!current()) return;
    if (typeof found.client === "number" && typeof client === "string") {
      state.client = found.client;
      if (frame.t !== undefined) show();
    }
    if (found.complete < 1) setTimeout(() => node.isConnected && current() && explain(ticket), 0);
    put(
      detail,
      found instanceof Error
        ? problem(`Client ${client}`, found.message)
        : clientDetail(found, world, t, choose),
    );
  }

  function settle() {
    remember?.({
      method: state.method,
      seed: state.seed,
      client: state.client,
      order: state.order,
      t: state.t,
    });
  }

  // In a picture of groups a click leads to a client of that group, and the next click to the next one.
  function chooseShown(k) {
    if (!world.by) return choose(k);
    const all = world.members[k];
    if (all.length) choose(all[(all.indexOf(state.client) + 1) % all.length]);
  }

  function choose(client) {
    state.client = client;
    chosen = true;
    const box = tools.querySelector("input.who");
    if (box) box.value = client;
    settle();
    show();
    explain(wanted);
  }

  function step(by) {
    const order = world.by ? world.members.flat() : world.orders[state.order];
    choose(order[Math.min(order.length - 1, Math.max(0, order.indexOf(state.client) + by))]);
  }

  function play() {
    label("❚❚", "Pause");
    let k = state.t === null ? 0 : Number(slider.value);
    const by = Math.max(1, Math.round(world.times.length / 200)),
      end = world.times.length - 1;
    state.playing = setInterval(async () => {
      k = Math.min(k + by, end);
      if (k < end && node.isConnected) await move(k);
      else {
        stop();
        await move(end);
        settle();
      }
    }, STEP);
  }

  function pause() {
    stop();
    settle();
    explain(wanted);
  }

  function stop() {
    clearInterval(state.playing);
    state.playing = null;
    label("▶", "Replay");
  }

  function label(sign, text) {
    put(button, `${sign} `, h("span", {}, text));
  }
}
