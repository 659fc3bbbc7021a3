// All clients, worst first: how well each does, whether it would do better alone, what it has.
import { choice, h, problem, put } from "./dom.js";
import { csvButton } from "./download.js";
import { amount, count, numbered, plural } from "./format.js";
import { columns, legend } from "./labels.js";
import { wording } from "./metric.js";
import { groupColour } from "./palette.js";
import { windowed } from "./windowed.js";

// How clients can be sorted: the words, and a number of each client, the smallest first.
const sorts = ({ metric }) => {
  const { words, merit } = wording(metric);
  return {
    personal: [`${words()}, worst first`, (f) => f.personal.map(merit)],
    gain: ["gain over Local, most hurt first", (f) => f.gain?.map((v) => v ?? -Number.MAX_VALUE)],
    train: ["training samples, fewest first", (f) => f.train],
    number: ["number", (f) => f.train.map((_, k) => k)],
    owner: ["owner", ({ owner }) => owner && ranks(owner)],
  };
};
const ranks = (names) => {
  const order = [...new Set(names)].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return names.map((name) => order.indexOf(name));
};
const tone = (gain) => (gain < 0 ? "bad" : gain > 0 ? "good" : "level");
const narrow = matchMedia("(max-width: 760px)"); // as in style.css

export async function clients(source, query, remember, link) {
  const node = h("div", { class: "view clients" });
  const state = {
    method: query.method,
    seed: query.seed,
    sort: query.sort,
    hurt: query.hurt === "on",
    surely: query.surely === "on",
    as: query.as ?? "list",
  };
  let found;
  narrow.addEventListener("change", () => node.isConnected && found?.worlds.length && draw());
  await load();
  return { node, refresh: load, keys: {} };

  async function load() {
    found = await source.get("clients", { method: state.method, seed: state.seed });
    if (found.worlds.length) draw();
    else put(node, problem("No evaluation yet", "The clients appear here after the run's first evaluation."));
  }

  function set(change, again) {
    Object.assign(state, change);
    const { method, seed, sort, as } = state;
    const ticked = { hurt: state.hurt ? "on" : null, surely: state.surely ? "on" : null };
    remember?.({ method, seed, sort, as: as === "list" ? null : as, ...ticked });
    if (again) load();
    else draw();
  }

  function draw() {
    const old = node.querySelector(".viewport")?.scrollTop ?? 0;
    const order = sorted(),
      tiles = state.as === "tiles";
    const said = wording(found.metric);
    const widest = Math.max(...(found.gain ?? [0]).map((g) => Math.abs(g ?? 0)), 10 * said.step);
    const most = Math.max(...found.personal.map((v) => v ?? 0));
    const own = [said.words("personal"), said.direction].filter(Boolean).join(", ");
    const kinds = found.architecture !== null,
      labelled = found.classes.length > 0,
      small = tiles || narrow.matches;
    const has = `${found.owner ? " owned" : ""}${kinds ? " kinds" : ""}${labelled ? " labelled" : ""}`;
    const heads = [
      ["client", "who"],
      kinds && ["architecture", "kind-of"],
      [own, ""],
      ["against Local", ""],
      ["global", "right"],
      ["samples", "right"],
      labelled && ["labels", "what"],
    ].filter(Boolean);
    const high =
      (tiles ? (labelled ? 118 : 72) : narrow.matches ? 68 : 46) + ((kinds || found.owner) && small ? 20 : 0);
    const list = windowed(
      order.length,
      high,
      tiles ? 150 : 0,
      (k) => (tiles ? tile(order[k], said) : row(order[k], said, widest, most)),
      state.as + has,
    );
    put(
      node,
      tools(order),
      lead(),
      legend(found.classes),
      !tiles &&
        h(
          "div",
          { class: `list heads${has}`, "aria-hidden": "true" },
          h(
            "div",
            { class: "client-row" },
            heads.map(([text, column]) => h("span", { class: column }, text)),
          ),
        ),
      list.node,
    );
    list.from(old);
  }

  function hurt(k) {
    return found.gain !== null && found.gain[k] !== null && found.gain[k] < 0;
  }

  function surely(k) {
    return found.surely?.[k] === -1;
  }

  function sorted() {
    const known = sorts(found);
    const keys = known[state.sort]?.[1](found) ?? known.personal[1](found);
    const only = [state.hurt && found.gain && hurt, state.surely && found.surely && surely].filter(Boolean);
    const shown = found.train.map((_, k) => k).filter((k) => only.every((kept) => kept(k)));
    return shown.sort((a, b) => keys[a] - keys[b] || a - b);
  }

  function tools(order) {
    const methods = [...new Set(found.worlds.map((w) => w.method))];
    const seeds = found.worlds.filter((w) => w.method === found.method).map((w) => w.seed);
    const offered = Object.entries(sorts(found)).filter(([k]) => !["gain", "owner"].includes(k) || found[k]);
    return h(
      "div",
      { class: "tools" },
      choice(
        "method",
        methods.map((m) => [m, m]),
        found.method,
        (method) => set({ method, seed: found.worlds.find((w) => w.method === method).seed }, true),
      ),
      choice(
        "seed",
        seeds.map((s) => [s, s]),
        found.seed,
        (seed) => set({ method: found.method, seed }, true),
      ),
      choice(
        "sorted by",
        offered.map(([k, [text]]) => [k, text]),
        state.sort,
        (sort) => set({ sort }),
      ),
      choice(
        "shown as",
        [
          ["list", "list"],
          ["tiles", "small multiples"],
        ],
        state.as,
        (as) => set({ as }),
      ),
      found.gain !== null && tick("hurt", "only those hurt"),
      found.surely !== null && tick("surely", "only those surely hurt"),
      csvButton(`clients ${found.method} seed ${found.seed}`, () => file(order)),
    );
  }

  function tick(key, text) {
    const onchange = (event) => set({ [key]: event.target.checked });
    const box = h("input", { type: "checkbox", checked: state[key], onchange });
    return h("label", { class: "tick" }, box, text);
  }

  function file(order) {
    return [
      [
        "client",
        ...(found.owner ? ["owner"] : []),
        "group",
        ...(found.architecture ? ["architecture"] : []),
        "personal",
        "gain over Local",
        "surely hurt",
        "global",
        "samples",
        ...found.classes,
      ],
      ...order.map((k) => [
        numbered(found, k),
        ...(found.owner ? [found.owner[k]] : []),
        found.group[k],
        ...(found.architecture ? [found.architecture[k]] : []),
        found.personal[k],
        found.gain?.[k],
        found.surely && Number(surely(k)),
        found.global[k],
        found.train[k],
        ...found.labels[k],
      ]),
    ];
  }

  function lead() {
    const all = found.train.length,
      lost = found.train.filter((_, k) => hurt(k)).length,
      sure = found.train.filter((_, k) => surely(k)).length,
      several = found.worlds.filter((w) => w.method === found.method).length > 1;
    return h(
      "p",
      { class: "lead" },
      found.numbers && `A sample of ${plural(all, "client")} of all ${count(found.clients)} is recorded. `,
      found.alone
        ? `${plural(all, "client")}, each learning alone.`
        : found.gain === null
          ? `${plural(all, "client")}. Add the method Local to a run to see who would do better alone.`
          : [
              h("b", {}, `${count(lost)} of ${plural(all, "client")}`),
              ` ${lost === 1 ? "is" : "are"} hurt: ` +
                `worse at iteration ${count(found.t)} than the same client learning alone`,
              found.surely !== null && [
                ", ",
                h("b", {}, `${count(sure)} surely`),
                ` (▼), with 95 % confidence${found.owned && several ? " over all seeds" : ""}`,
              ],
              ".",
            ],
    );
  }

  function name(k) {
    const dot =
      found.groups > 1 &&
      h("i", {
        class: "dot",
        title: `group ${found.group[k]}`,
        css: { background: groupColour(found.group[k]) },
      });
    const text = `client ${numbered(found, k)}`,
      there = { method: found.method, seed: found.seed, client: numbered(found, k) };
    return [
      dot,
      link ? h("a", { href: link(there) }, text) : text,
      found.owner && h("small", { class: "owner", title: found.owner[k] }, ` ${found.owner[k]}`),
      surely(k) && h("small", { class: "bad", title: "surely hurt" }, " ▼"),
      found.diverged.includes(k) && h("small", { class: "bad" }, " diverged"),
      found.attackers.includes(k) && h("small", { class: "bad" }, " attacker"),
    ];
  }

  // The architecture, in small lists after the owner, for whom there is no room beside the number.
  function kind(k) {
    const owner = (state.as === "tiles" || narrow.matches) && found.owner?.[k];
    const text = [owner, found.architecture?.[k]].filter(Boolean).join(" · ");
    return text && h("small", { class: "kind-of", title: text }, text);
  }

  function row(k, said, widest, most) {
    const gain = found.gain?.[k] ?? null,
      own = found.personal[k];
    const wide = `${(50 * Math.abs(gain)) / widest}%`;
    const title = found.labels[k]
      .map((n, l) => n && `${found.classes[l]}: ${n}`)
      .filter(Boolean)
      .join(", ");
    return h(
      "div",
      { class: "client-row", "data-client": numbered(found, k) },
      h("span", { class: "who" }, name(k)),
      kind(k),
      h(
        "span",
        { class: "meter" },
        h("i", { css: { width: `${100 * said.share(own, most)}%` } }),
        h("b", {}, said.full(own)),
      ),
      h(
        "span",
        { class: `lean ${tone(gain)}` },
        gain !== null && h("i", { css: { [gain < 0 ? "right" : "left"]: "50%", width: wide } }),
        h("b", {}, said.gain(gain)),
      ),
      h("span", { class: "right", "data-head": "global " }, said.full(found.global[k])),
      h("span", { class: "right", "data-head": "samples " }, count(found.train[k])),
      found.classes.length > 0 && h("span", { class: "what", title }, columns(found.labels[k])),
    );
  }

  function tile(k, said) {
    const gain = found.gain?.[k] ?? null;
    return h(
      "div",
      { class: "tile", "data-client": numbered(found, k) },
      h("div", {}, h("span", { class: "who" }, name(k)), h("b", {}, said.full(found.personal[k]))),
      kind(k),
      found.classes.length > 0 && columns(found.labels[k], { width: 126, height: 46 }),
      h(
        "div",
        {},
        h("small", {}, `${amount(found.train[k])} samples`),
        gain !== null && h("small", { class: tone(gain) }, said.gain(gain)),
      ),
    );
  }
}
