// All runs: how far each is, how well its methods do; tick several to compare them.
import { h, problem, put } from "./dom.js";
import { count, day, percent, plural } from "./format.js";
import { pill, progress } from "./overview.js";

const ticked = new Set();

export async function runs(server, link) {
  const node = h("div", { class: "view runs" });
  await load();
  return { node, refresh: load, keys: {} };

  async function load() {
    const { root, runs: found } = await server.listing();
    for (const id of ticked) if (!found.some((run) => run.id === id)) ticked.delete(id);
    if (!found.length) {
      put(node, h("section", { class: "empty" }, h("h1", {}, "No runs yet"),
        h("p", {}, "There is no run folder in ", h("code", {}, root), ". Make one, and it appears here while it runs:"),
        h("pre", {}, "coterie run quickstart"),
        h("p", { class: "note" }, "Runs elsewhere: ", h("code", {}, "coterie dashboard FOLDER"))));
      return;
    }
    const compare = h("a", { class: "button" }, "Compare");
    const update = () => {
      compare.textContent = ticked.size ? `Compare ${ticked.size}` : "Compare";
      compare.toggleAttribute("aria-disabled", ticked.size < 2);
      if (ticked.size < 2) compare.removeAttribute("href"); else compare.href = link.compare([...ticked]);
    };
    put(node,
      h("div", { class: "title" }, h("h1", {}, "Runs"), h("span", { class: "note" }, `${count(found.length)} in ${root}`), compare),
      h("ul", { class: "runs-list" }, found.map((run) => h("li", { class: "card" },
        h("input", { type: "checkbox", checked: ticked.has(run.id), disabled: Boolean(run.error) || run.kind === "swarm", "aria-label": `compare ${run.id}`,
          onchange: (event) => { ticked[event.target.checked ? "add" : "delete"](run.id); update(); } }),
        h("div", { class: "run-name" }, h("a", { href: link.run(run.id, run.kind === "swarm" ? "swarm" : "overview") }, run.id),
          h("small", {}, run.error ? "" : run.kind === "swarm" ? `${plural(run.clients, "peer")}, live` : `${plural(run.clients, "client")} · ${plural(run.seeds, "seed")} · ${day(run.date)}`)),
        run.error ? h("p", { class: "run-error" }, pill(run), ` ${run.error}`) : [
          h("div", { class: "run-state" }, pill(run), run.state === "done" ? h("span", {}, `${count(run.iterations)} iterations`) : progress(run)),
          scores(run.methods)]))));
    update();
  }
}

function scores(methods) {
  const known = Object.entries(methods), best = Math.max(...known.map(([, v]) => v ?? 0));
  const shown = known.slice(0, 6);
  return h("div", { class: "scores", title: "mean personal accuracy" },
    known.length ? shown.map(([name, v]) => h("span", { class: v === best ? "best" : "" }, `${name} `, h("b", {}, percent(v)))) : h("span", { class: "note" }, "not evaluated yet"),
    known.length > shown.length && h("span", { class: "note" }, `and ${known.length - shown.length} more`));
}

export const missing = (error) => problem("This cannot be shown", error.message);
