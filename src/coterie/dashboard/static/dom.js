// Elements made of plain data. Text always becomes a text node, so a name can never become markup.

const SVG = "http://www.w3.org/2000/svg";

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "css") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

export const h = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) =>
  make(document.createElementNS(SVG, tag), attributes, children);

// Replaces the children. What had the focus has it again, even if it was made anew: a page that is drawn
// twice a second stays usable by keyboard.
export function put(parent, ...children) {
  const had =
    parent.contains(document.activeElement) && document.activeElement !== parent
      ? document.activeElement
      : null;
  const path = had && steps(parent, had);
  parent.replaceChildren(
    ...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false),
  );
  const now = path?.reduce((at, k) => at?.children[k], parent);
  if (now && now !== had && now.tagName === had.tagName && now.className === had.className)
    now.focus({ preventScroll: true });
  return parent;
}

function steps(parent, inner) {
  const path = [];
  for (let at = inner; at !== parent; at = at.parentElement)
    path.unshift([...at.parentElement.children].indexOf(at));
  return path;
}

// Calls draw(width) now that the element is in the page, whenever its width changes, and when the theme does.
export function fitted(element, draw) {
  let width = 0;
  const again = () => width && draw(width);
  new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now && now !== width) {
      width = now;
      draw(width);
    }
  }).observe(element);
  document.addEventListener("theme", () => element.isConnected && again());
  return again;
}

export function choice(label, options, value, change) {
  const select = h(
    "select",
    { onchange: () => change(select.value) },
    options.map(([v, text]) => h("option", { value: v, selected: String(v) === String(value) }, text)),
  );
  return h("label", { class: "choice" }, h("span", {}, label), select);
}

// For screen readers alone: what the eye sees without it.
export const unseen = (tag, text) => h(tag, { class: "unseen" }, text);

export function problem(title, sentence, ...more) {
  return h("section", { class: "problem", role: "alert" }, h("h2", {}, title), h("p", {}, sentence), more);
}

const tip = () => {
  let node = document.getElementById("tip");
  if (!node) document.body.append((node = h("div", { id: "tip", hidden: true })));
  return node;
};

export function showTip(x, y, ...lines) {
  const node = put(
    tip(),
    lines.map((line) => h("div", {}, line)),
  );
  node.hidden = false;
  const { width, height } = node.getBoundingClientRect();
  node.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
  node.style.top = `${y + 18 + height > innerHeight ? y - height - 10 : y + 18}px`;
}

export const hideTip = () => {
  tip().hidden = true;
};
