// A command for a terminal, and a button that copies it.
import { h } from "./dom.js";

export function command(text) {
  const code = h("code", { title: text }, text);
  const button = h(
    "button",
    { type: "button", class: "get", "aria-live": "polite", "aria-label": `copy: ${text}`, onclick: copy },
    "copy",
  );
  return h("span", { class: "command" }, code, button);

  async function copy() {
    // Over plain HTTP from another machine a page may not write to the clipboard: the command is selected instead.
    const done = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    if (!done) getSelection().selectAllChildren(code);
    button.textContent = done ? "copied" : "selected";
    setTimeout(() => (button.textContent = "copy"), 2000);
  }
}
