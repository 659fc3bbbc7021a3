// Which page is shown, what is above it, and that it stays up to date.
//
// A contract of all modules here: dashboard/export.py joins them into one script for a report, by two
// patterns. So imports have the form `import { a, b } from "./module.js";`, and an export is one name at the
// beginning of a line: `export const a`, `export function a`, `export async function a`, `export class a`.
import { server, watch } from "./api.js";
import { board } from "./board.js";
import { clients } from "./clients.js";
import { compare } from "./compare.js";
import { h, hideTip, problem, put, unseen } from "./dom.js";
import { graph } from "./graph.js";
import { busyWith, helpButton } from "./help.js";
import { overview } from "./overview.js";
import { missing, runs } from "./runs.js";
import { swarm } from "./swarm.js";
import { themeButton } from "./theme.js";

const ALONE = { swarm: "Live swarm", board: "Leaderboard" }; // the only views of what they show
const VIEWS = { overview: "Overview", graph: "Graph", clients: "Clients" };
const KEPT = ["method", "seed", "client"]; // what another view of the same run begins with
const page = document.getElementById("page"),
  banner = document.getElementById("banner");
let current = null,
  unwatch = null,
  busy = false,
  waiting = false,
  missed = false;

const kept = (query) =>
  Object.fromEntries(KEPT.filter((key) => key in query).map((key) => [key, query[key]]));
const asked = (query) => (Object.keys(query).length ? `?${new URLSearchParams(query)}` : "");
const link = {
  run: (id, view = "overview", query = {}) => `#/run/${encodeURIComponent(id)}/${view}${asked(query)}`,
  compare: (ids) => `#/compare/${ids.map(encodeURIComponent).join(",")}`,
};

function where() {
  const [path, query] = location.hash.slice(1).split("?");
  const [, place, id, view] = path.split("/");
  return { place, id, view, query: Object.fromEntries(new URLSearchParams(query)) };
}

async function show() {
  hideTip();
  unwatch?.();
  current?.close?.();
  current = null;
  const { place, id, view, query } = where();
  const here = location.hash;
  const name = place === "run" ? decodeURIComponent(id) : null;
  document.title = name ? `${name} · coterie` : "coterie";
  put(document.getElementById("top"), header(name, view, query));
  page.setAttribute("aria-busy", "true");
  await listening(name); // first, so that nothing that changes from here on is missed
  try {
    if (here !== location.hash) return;
    const next = await open(place, id, name, view, query);
    if (here !== location.hash) return;
    current = next;
    put(page, titled(name, view), current.node);
  } catch (error) {
    if (here === location.hash) put(page, titled(name, view, true), missing(error));
  }
  page.removeAttribute("aria-busy");
}

// What stands above a view: the run and, for screen readers, which view. Views without a run, and the swarm,
// have titles of their own, unless they cannot be shown.
function titled(name, view, failed = false) {
  if (name === null || view === "swarm") return failed && unseen("h1", name ?? "coterie");
  return [h("h1", { class: "run-title" }, name), unseen("h2", ALONE[view] ?? VIEWS[view] ?? VIEWS.overview)];
}

// Watches for changes; done once the line is up, or is known to be down.
function listening(name) {
  let first = true;
  return new Promise((done) => {
    unwatch = watch(
      name,
      () => {
        const news = !first || missed;
        first = missed = false;
        done();
        if (news) refresh();
      },
      (down) => {
        lost(down);
        done();
      },
    );
  });
}

function open(place, id, name, view, query) {
  const remember = (now) => keep(query, now);
  if (place === "compare") {
    return compare(
      id.split(",").map((one) => server.run(decodeURIComponent(one))),
      link,
      query,
      remember,
    );
  }
  if (place !== "run") return runs(server, link, query, remember);
  const source = server.run(name);
  if (view === "swarm") return swarm(source, query, remember, (run) => link.run(run));
  if (view === "board") return board(source, query, remember);
  if (view === "graph") return graph(source, query, remember);
  const toClient = (q) => link.run(name, "graph", q);
  if (view === "clients") return clients(source, query, remember, toClient);
  return overview(source, query, remember, toClient);
}

// Puts what was chosen into the address, so that a link shows what its sender sees; null takes it out.
function keep(query, now) {
  for (const [key, value] of Object.entries(now)) {
    if (value === null || value === undefined || value === "") delete query[key];
    else query[key] = value;
  }
  const [path] = location.hash.split("?");
  history.replaceState(null, "", `${path || "#/"}${asked(query)}`);
  const { place, id, view } = where();
  if (place === "run" && KEPT.some((key) => key in now)) {
    put(document.getElementById("top"), header(decodeURIComponent(id), view, query));
  }
}

function header(name, view, query) {
  const views = view in ALONE ? { [view]: ALONE[view] } : VIEWS,
    here = view in views ? view : "overview";
  return [
    h(
      "a",
      { class: "brand", href: "#/" },
      h("img", { src: "/static/icon.svg", alt: "", width: 22, height: 22 }),
      "coterie",
    ),
    name !== null && h("span", { class: "crumb" }, name),
    name !== null &&
      h(
        "nav",
        { "aria-label": "views" },
        Object.entries(views).map(([key, title]) =>
          h(
            "a",
            { href: link.run(name, key, kept(query)), "aria-current": here === key ? "page" : null },
            title,
          ),
        ),
      ),
    h("span", { class: "icons" }, helpButton(), themeButton()),
  ];
}

async function refresh() {
  waiting = true;
  if (busy) return;
  busy = true;
  while (waiting) {
    waiting = false;
    try {
      if (current) await current.refresh();
      else await show();
    } catch (error) {
      const { place, id, view } = where();
      put(page, titled(place === "run" ? decodeURIComponent(id) : null, view, true), missing(error));
      current = null;
    }
  }
  busy = false;
}

function lost(down) {
  missed ||= down;
  put(
    banner,
    down &&
      problem(
        "The dashboard does not answer",
        "It may have been stopped. " +
          "Start it again with `coterie dashboard`; this page then goes on by itself.",
      ),
  );
}

document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  const pressed = /^(INPUT|BUTTON)$/.test(target.tagName) && key === " ";
  if (event.ctrlKey || event.metaKey || event.altKey || busyWith(target) || pressed) return;
  const { place, id, view, query } = where();
  const next = place === "run" && !(view in ALONE) && Object.keys(VIEWS)["123".indexOf(key)];
  if (next) location.hash = link.run(decodeURIComponent(id), next, kept(query));
  else if (current?.keys?.[key]) {
    event.preventDefault();
    current.keys[key]();
  }
});
addEventListener("hashchange", show);
show();
