// Light or dark: as the system says, until the reader says otherwise.
import { h } from "./dom.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const chosen = () => {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
};

function apply() {
  document.documentElement.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
  document.dispatchEvent(new Event("theme"));
}

export function themeButton() {
  const turn = () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("theme", next);
    } catch {
      /* a file may not store it: it lasts until that is closed */
    }
    document.documentElement.dataset.theme = next;
    document.dispatchEvent(new Event("theme"));
  };
  return h(
    "button",
    { type: "button", class: "icon", "aria-label": "light or dark", title: "light or dark", onclick: turn },
    "◐",
  );
}

system.addEventListener("change", apply);
apply();
