// A report: the pages of its runs one below the other, with the numbers that are in the file.
import { frozen } from "./api.js";
import { clients } from "./clients.js";
import { h, problem, put } from "./dom.js";
import { graph } from "./graph.js";
import { overview } from "./overview.js";
import { themeButton } from "./theme.js";

const runs = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const titles = { overview: "Overview", graph: "Who listens to whom", clients: "Clients" };

put(document.getElementById("top"), h("span", { class: "brand" }, "coterie"), h("span", { class: "crumb" }, "report"), themeButton());

for (const [k, { name, answers }] of runs.entries()) {
  const source = frozen(name, answers);
  page.append(h("h1", { class: "run-title" }, name));
  for (const [view, open] of Object.entries({ overview, graph, clients })) {
    const section = h("section", { class: "part", id: `${view}-${k}` }, view !== "overview" && h("h2", {}, titles[view]));
    page.append(section);
    open(source, {}).then(({ node }) => section.append(node), (error) => section.append(problem(titles[view], error.message)));
  }
}
