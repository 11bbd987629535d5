// Alerts as rows: the whole row is a link. Up, Down, Home and End walk, Enter opens, Space selects, Right and Left open
// and close what is behind an incident. Nothing of a text becomes markup: every piece is set through textContent.

const lists = new WeakMap();
const opened = new Set(); // incidents whose alerts are shown, also when the list comes anew

export default function mount(component) {
  const root = component.parentElement.querySelector(".clustercep-alerts");
  let list = lists.get(root);
  if (list === undefined) {
    list = new List(root);
    lists.set(root, list);
  }
  list.update(component);
}

class List {
  constructor(root) {
    this.root = root;
    root.addEventListener("keydown", (event) => this.pressed(event));
    root.addEventListener("click", (event) => this.clicked(event));
    root.addEventListener("focusin", (event) => {
      if (event.target.matches("a")) this.stopAt(event.target);
    });
  }

  update(component) {
    this.component = component;
    this.data = component.data;
    const drawn = JSON.stringify(this.data.rows) + this.data.selectable;
    if (drawn !== this.drawn) {
      // Who walks with the keys stays where they are while the list is told anew.
      const focused = this.root.contains(document.activeElement) ? document.activeElement.dataset.id : undefined;
      this.drawn = drawn;
      this.root.replaceChildren(this.rows(this.data.rows, this.data.label, this.data.selectable));
      const links = this.links();
      const at = links.find((link) => link.dataset.id === focused);
      if (links.length > 0) this.stopAt(at ?? links[0]);
      if (at !== undefined) at.focus();
    }
    for (const box of this.root.querySelectorAll("input")) box.checked = this.data.selected.includes(box.dataset.id);
  }

  // ----------------------------------------------------------------- drawing

  rows(alerts, label, selectable) {
    const list = made("ul", { "aria-label": label });
    for (const alert of alerts) {
      const item = made("li");
      item.append(this.row(alert, selectable));
      if (alert.n_behind !== "") item.append(this.behind(alert));
      list.append(item);
    }
    return list;
  }

  row(alert, selectable) {
    const row = made("div", { class: selectable ? "row" : "row unselectable" });
    if (selectable) {
      const label = `Select: ${alert.title}`;
      row.append(made("input", { type: "checkbox", tabindex: "-1", "aria-label": label, "data-id": alert.id }));
    }
    const standing = made("span", { class: "standing" });
    standing.append(
      made("span", { class: `severity ${alert.severity}` }, alert.severity_sign),
      made("span", { class: "state" }, alert.state),
    );
    const what = made("div");
    const link = made("a", { href: alert.url, tabindex: "-1", "data-id": alert.id }, alert.title);
    if (alert.whole_title !== alert.title) link.title = alert.whole_title;
    what.append(link, made("span", { class: "facts" }, alert.facts.join(" · ")));
    if (alert.n_behind !== "") {
      const shown = String(opened.has(alert.id));
      what.append(made("button", { type: "button", "aria-expanded": shown, "data-id": alert.id }, alert.n_behind));
    }
    row.append(
      standing,
      what,
      made("span", { class: "began" }, alert.began),
      made("span", { class: "lasted" }, alert.lasted),
    );
    return row;
  }

  behind(alert) {
    const box = made("div", { class: "behind" });
    box.hidden = !opened.has(alert.id);
    box.append(this.rows(alert.behind, `Behind: ${alert.title}`, false));
    if (alert.more_behind !== "") box.append(made("p", { class: "more" }, alert.more_behind));
    return box;
  }

  // ---------------------------------------------------------------- walking

  links() {
    return [...this.root.querySelectorAll("a")].filter((link) => link.closest("[hidden]") === null);
  }

  // One stop for Tab; the arrow keys go on from there.
  stopAt(link) {
    for (const other of this.root.querySelectorAll('a[tabindex="0"]')) other.tabIndex = -1;
    link.tabIndex = 0;
  }

  pressed(event) {
    if (!event.target.matches("a") || event.ctrlKey || event.altKey || event.metaKey) return;
    const links = this.links();
    const at = links.indexOf(event.target);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
    if (to !== undefined) {
      (links[to] ?? event.target).focus();
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      this.fold(event.target.closest("li"), event.key === "ArrowRight");
    } else if (event.key === " ") {
      const box = event.target.closest(".row").querySelector("input");
      if (box !== null) box.click();
    } else {
      return;
    }
    event.preventDefault();
  }

  clicked(event) {
    const target = event.target;
    if (target.matches("button")) {
      this.fold(target.closest("li"), target.getAttribute("aria-expanded") !== "true");
    } else if (target.matches("input")) {
      const boxes = [...this.root.querySelectorAll("input")];
      this.component.setStateValue("selected", boxes.filter((box) => box.checked).map((box) => box.dataset.id));
    } else if (target.matches("a") && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)) {
      // As `back` and `forward` go: the page's script runs, nothing is loaded anew, and `back` finds the filters.
      event.preventDefault();
      history.pushState({}, "", target.href);
      dispatchEvent(new PopStateEvent("popstate", { state: {} }));
      scrollTo(0, 0);
    }
  }

  fold(item, shown) {
    const button = item.querySelector(":scope > .row button");
    if (button === null) return;
    if (shown) opened.add(button.dataset.id);
    else opened.delete(button.dataset.id);
    button.setAttribute("aria-expanded", String(shown));
    item.querySelector(":scope > .behind").hidden = !shown;
  }
}

function made(name, attributes = {}, text = undefined) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
