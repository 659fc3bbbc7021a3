// A report: the pages of its runs and leaderboards one below the other, with the numbers that are in the file.
import { frozen } from "./api.js";
import { board } from "./board.js";
import { clients } from "./clients.js";
import { h, problem, put, unseen } from "./dom.js";
import { graph } from "./graph.js";
import { helpButton } from "./help.js";
import { overview } from "./overview.js";
import { themeButton } from "./theme.js";

const runs = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const views = { run: { overview, graph, clients }, board: { board } };
const titles = {
  overview: "Overview",
  graph: "Who listens to whom",
  clients: "Clients",
  board: "Leaderboard",
};

put(
  document.getElementById("top"),
  h("span", { class: "brand" }, "coterie"),
  h("span", { class: "crumb" }, "report"),
  h("span", { class: "icons" }, helpButton(), themeButton()),
);

page.append(
  h(
    "nav",
    { class: "card contents", "aria-label": "contents" },
    h("h2", {}, "Contents"),
    h(
      "ol",
      {},
      runs.map(({ name, kind }, k) =>
        h(
          "li",
          {},
          h("a", { href: `#run-${k}` }, name),
          h(
            "span",
            {},
            Object.keys(views[kind]).map((view) => h("a", { href: `#${view}-${k}` }, titles[view])),
          ),
        ),
      ),
    ),
  ),
);

for (const [k, { name, kind, answers }] of runs.entries()) {
  const source = frozen(name, answers);
  page.append(h("h1", { class: "run-title", id: `run-${k}` }, name));
  for (const [view, open] of Object.entries(views[kind])) {
    const section = h(
      "section",
      { class: "part", id: `${view}-${k}` },
      kind === "run" && view !== "overview" ? h("h2", {}, titles[view]) : unseen("h2", titles[view]),
    );
    page.append(section);
    open(source, {}).then(
      ({ node }) => section.append(node),
      (error) => section.append(problem(titles[view], error.message)),
    );
  }
}
