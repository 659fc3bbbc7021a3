// Which keys there are.
import { h, put } from "./dom.js";

const KEYS = {
  Everywhere: [
    ["?", "this help"],
    ["Tab", "the next thing that can be chosen"],
    ["Esc", "close this help"],
  ],
  Runs: [["/", "search"]],
  "A leaderboard": [
    ["/", "search"],
    ["←  →  ↑  ↓", "from cell to cell"],
    ["Enter", "on a cell: its details"],
  ],
  "A run": [
    ["1  2  3", "overview, graph, clients"],
    ["←  →  Enter", "on the gains: from client to client, open it"],
  ],
  Graph: [
    ["Space", "replay, pause"],
    ["j  k", "the next and the previous client"],
    ["↑  ↓", "on the heat map: choose a row"],
    ["←  →", "on the slider: one step"],
  ],
  "A live swarm": [["j  k", "the next and the previous peer"]],
  "Charts and tables": [
    ["←  →", "on a chart: read the values"],
    ["Enter", "on a column's head: sort by it"],
  ],
};

const shown = h("dialog", { class: "help", "aria-label": "keyboard" });

function show() {
  put(
    shown,
    h("h2", {}, "Keyboard"),
    Object.entries(KEYS).map(([where, keys]) => [
      h("h3", {}, where),
      h(
        "dl",
        {},
        keys.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]),
      ),
    ]),
    h("form", { method: "dialog" }, h("button", { class: "play" }, "Close")),
  );
  if (!shown.isConnected) document.body.append(shown);
  if (!shown.open) shown.showModal();
}

export const helpButton = () =>
  h(
    "button",
    {
      type: "button",
      class: "icon",
      "aria-label": "keyboard help",
      title: "keyboard help (?)",
      onclick: show,
    },
    "?",
  );

// Whether somebody is writing or choosing just now, so that keys are not for the page.
export const busyWith = (target) =>
  /^(SELECT|TEXTAREA)$/.test(target.tagName) ||
  (target.tagName === "INPUT" && !/^(checkbox|range)$/.test(target.type));

document.addEventListener("keydown", (event) => {
  if (event.key === "?" && !busyWith(event.target)) show();
});
