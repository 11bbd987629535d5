// Texts, each with a button that copies it. Nothing of a text becomes markup: every piece is set through textContent.

const SAID_MS = 1500;
const drawn = new WeakMap();
// Of a query: a comment, a text in quotes, or a word of the language as queries are written.
const PIECE = /(--[^\n]*)|('(?:[^'\n]|'')*'|"[^"\n]*")|\b([A-Z]{2}[A-Z_]*)\b/g;
const LOOKS = ["comment", "quoted", "clause"];

export default function mount(component) {
  const root = component.parentElement.querySelector(".clustercep-copied");
  const told = JSON.stringify(component.data.texts);
  if (drawn.get(root) === told) return; // what is selected in it stays so
  drawn.set(root, told);
  root.replaceChildren(...component.data.texts.map(shown));
}

function shown({ name, text, label, kind }) {
  const whole = made("div", {});
  if (label !== "") whole.append(made("p", { class: "label" }, label));
  const box = made("div", { class: "box" });
  const button = made("button", { type: "button", "aria-label": `Copy: ${name}` }, "Copy");
  button.addEventListener("click", () => copy(text, button));
  const pre = made("pre", { tabindex: "0", class: kind });
  pre.append(...(kind === "query" ? pieces(text) : [text]));
  box.append(pre, button);
  whole.append(box);
  return whole;
}

function* pieces(text) {
  let end = 0;
  for (const found of text.matchAll(PIECE)) {
    yield text.slice(end, found.index);
    yield made("span", { class: LOOKS[found.slice(1).findIndex((piece) => piece !== undefined)] }, found[0]);
    end = found.index + found[0].length;
  }
  yield text.slice(end);
}

async function copy(text, button) {
  const done = await copied(text, button);
  button.textContent = done ? "Copied" : "Not copied";
  setTimeout(() => {
    button.textContent = "Copy";
  }, SAID_MS);
}

async function copied(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without HTTPS browsers have no clipboard for pages, but for what is selected in a field.
    const field = made("textarea", { "aria-hidden": "true" });
    field.value = text;
    field.style.cssText = "position: fixed; opacity: 0";
    button.after(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    button.focus();
    return done;
  }
}

function made(name, attributes, text) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
