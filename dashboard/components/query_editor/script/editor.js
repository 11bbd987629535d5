// A text field for queries: the typed text lies, transparent, over the same text in colours. Nothing of the text becomes
// markup: every piece is set through textContent.

const DELAY_MS = 300; // after the last key, before the text is sent to be checked
const INDENT = "  ";
const MAX_COLOURED_CHARS = 20000; // longer texts are shown in one colour

const KEYWORDS = new Set(
  ("pattern seq and or not any null where within events open on slide return as output all sets collapsed count " +
    "non_overlapping top by confidence limit exact ties strict source having in group_by group_gap parameters alert report show hosts onset with " +
    "per select first consume weight info warning critical skip_till_next_match skip_till_any_match " +
    "strict_contiguity partition_contiguity").split(" "),
);
const PIECES =
  /(?<comment>(?:--|\/\/)[^\n]*)|(?<text>'(?:[^']|'')*'?)|(?<parameter>:[A-Za-z_]\w*)|(?<number>\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?<name>[A-Za-z_]\w*(?:-[A-Za-z_]\w*)*)/g;

const editors = new WeakMap();

export default function mount(component) {
  let editor = editors.get(component.parentElement);
  if (editor === undefined) {
    editor = new Editor(component.parentElement);
    editors.set(component.parentElement, editor);
    editor.start(component.data.checked);
  }
  editor.update(component);
  return () => editor.stop();
}

class Editor {
  constructor(root) {
    this.frame = root.querySelector(".frame");
    this.gutter = root.querySelector(".gutter");
    this.shown = root.querySelector(".shown");
    this.typed = root.querySelector(".typed");
    this.verdict = root.querySelector(".verdict");
    this.timer = null;
    this.tabLeaves = false;
    this.runs = 0;
  }

  // The field is readonly up to here: what is typed before this script has come would be overwritten.
  start(text) {
    this.typed.value = text;
    this.typed.readOnly = false;
    this.sent = text;
    this.typed.addEventListener("input", () => this.changed());
    this.typed.addEventListener("keydown", (event) => this.pressed(event));
    this.typed.addEventListener("scroll", () => this.follow());
    this.typed.addEventListener("blur", () => this.send());
    this.typed.rows = Math.min(Math.max(text.split("\n").length + 1, 10), 28);
  }

  stop() {
    clearTimeout(this.timer);
  }

  update(component) {
    this.component = component;
    this.data = component.data;
    this.types = new Set(this.data.types);
    this.typed.maxLength = this.data.max_chars;
    this.draw();
  }

  // ------------------------------------------------------------------ typing

  changed() {
    this.draw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), DELAY_MS);
  }

  send() {
    clearTimeout(this.timer);
    if (this.typed.value === this.sent) return;
    this.sent = this.typed.value;
    this.component.setStateValue("text", this.sent);
  }

  pressed(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.send();
      this.runs += 1;
      this.component.setTriggerValue("run", this.typed.value);
      return;
    }
    if (event.key === "Tab" && !this.tabLeaves && !event.ctrlKey && !event.altKey) {
      event.preventDefault();
      if (event.shiftKey) this.outdent();
      else this.insert(INDENT);
    }
    if (event.key !== "Shift") this.tabLeaves = event.key === "Escape";
  }

  insert(text) {
    // The command keeps the browser's undo; where it is gone the text is set directly.
    if (!document.execCommand("insertText", false, text)) {
      this.typed.setRangeText(text, this.typed.selectionStart, this.typed.selectionEnd, "end");
      this.changed();
    }
  }

  outdent() {
    const at = this.typed.selectionStart;
    const start = this.typed.value.lastIndexOf("\n", at - 1) + 1;
    const spaces = /^ {0,2}/.exec(this.typed.value.slice(start))[0].length;
    if (spaces === 0) return;
    this.typed.setSelectionRange(start, start + spaces);
    if (!document.execCommand("delete")) {
      this.typed.setRangeText("", start, start + spaces, "end");
      this.changed();
    }
    const back = Math.max(start, at - spaces);
    this.typed.setSelectionRange(back, back);
  }

  follow() {
    this.shown.scrollTop = this.gutter.scrollTop = this.typed.scrollTop;
    this.shown.scrollLeft = this.typed.scrollLeft;
  }

  // ----------------------------------------------------------------- showing

  draw() {
    const text = this.typed.value;
    const isChecked = this.data.checked === text;
    const problem = isChecked ? this.data.problem : null;
    this.wrong = problem === null ? null : rangeOf(text, problem);
    this.shown.replaceChildren(...this.pieces(text), "\n");
    this.number(text, problem);
    this.judge(isChecked, problem);
    this.frame.classList.toggle("refused", problem !== null);
    this.typed.setAttribute("aria-invalid", String(problem !== null));
    this.follow();
  }

  pieces(text) {
    const pieces = [];
    let at = 0;
    const add = (to, kind) => {
      if (to > at) pieces.push(...this.marked(text, at, to, kind));
      at = Math.max(at, to);
    };
    if (text.length <= MAX_COLOURED_CHARS) {
      for (const match of text.matchAll(PIECES)) {
        add(match.index, "");
        add(match.index + match[0].length, this.kind(match, text));
      }
    }
    add(text.length, "");
    return pieces;
  }

  kind(match, text) {
    const { comment, text: quoted, parameter, number, name } = match.groups;
    if (comment !== undefined) return "comment";
    if (quoted !== undefined) return "text";
    if (parameter !== undefined) return "parameter";
    if (number !== undefined) return "number";
    if (this.types.has(name)) return "type";
    const next = text.slice(match.index + name.length, match.index + name.length + 1);
    const isMember = text[match.index - 1] === ".";
    if (!isMember && next === "(" && name === name.toLowerCase()) return "function";
    return !isMember && KEYWORDS.has(name.toLowerCase().replaceAll("-", "_")) ? "keyword" : "";
  }

  // One piece of one kind, cut where the wrong place begins and ends.
  marked(text, from, to, kind) {
    const cuts = [from, to];
    if (this.wrong !== null) {
      for (const cut of this.wrong) if (cut > from && cut < to) cuts.push(cut);
    }
    cuts.sort((a, b) => a - b);
    const pieces = [];
    for (let i = 0; i + 1 < cuts.length; i += 1) {
      const isWrong = this.wrong !== null && cuts[i] >= this.wrong[0] && cuts[i] < this.wrong[1];
      pieces.push(element("span", isWrong ? `${kind} wrong`.trim() : kind, text.slice(cuts[i], cuts[i + 1])));
    }
    return pieces;
  }

  number(text, problem) {
    const lines = [];
    const nLines = text.split("\n").length;
    for (let line = 1; line <= nLines; line += 1) {
      const isWrong = problem !== null && problem.line === line;
      lines.push(element("span", isWrong ? "at" : "", String(line)), "\n");
    }
    this.gutter.replaceChildren(...lines);
  }

  judge(isChecked, problem) {
    if (!isChecked) {
      this.tell("busy", element("span", "busy", "Checking …"));
    } else if (problem === null) {
      this.tell("valid", element("span", "valid", this.data.verdict));
    } else {
      this.tell(JSON.stringify(problem), this.refusal(problem));
    }
  }

  // What is said does not change while nothing changes: a screen reader would read it again.
  tell(what, node) {
    const said = `${what} ${this.data.verdict}`;
    if (this.said === said) return;
    this.said = said;
    this.verdict.replaceChildren(node);
  }

  refusal(problem) {
    const box = element("div", "refusal", "");
    if (problem.line !== null) {
      const place = element("button", "", `Line ${problem.line}, column ${problem.column}`);
      place.type = "button";
      place.addEventListener("click", () => this.goTo(problem));
      box.append(place, ": ");
    }
    box.append(element("span", "message", problem.message));
    if (problem.excerpt.length > 0) {
      const excerpt = element("pre", "", `${problem.excerpt[0]}\n`);
      excerpt.append(element("span", "caret", problem.excerpt[1] ?? ""));
      box.append(excerpt);
    }
    if (problem.expected) box.append(element("div", "advice", `Expected: ${problem.expected}`));
    if (problem.remedy) box.append(element("div", "advice", `Remedy: ${problem.remedy}`));
    return box;
  }

  goTo(problem) {
    const range = rangeOf(this.typed.value, problem);
    if (range === null) return;
    this.typed.focus();
    this.typed.setSelectionRange(range[0], range[1]);
  }
}

// [from, to) in the text's UTF-16 units; lines and columns count code points from 1, the end is exclusive.
function rangeOf(text, problem) {
  if (problem.line === null) return null;
  const lines = text.split("\n");
  const from = offset(lines, problem.line, problem.column);
  const to = offset(lines, problem.end_line, problem.end_column);
  // Something that is missing has no length: the character there is marked, or the one before the end.
  if (to > from) return [from, to];
  return from < text.length && text[from] !== "\n" ? [from, from + 1] : [Math.max(from - 1, 0), from];
}

function offset(lines, line, column) {
  let at = 0;
  for (let i = 0; i < Math.min(line - 1, lines.length); i += 1) at += lines[i].length + 1;
  const points = Array.from(lines[line - 1] ?? "");
  return at + points.slice(0, column - 1).join("").length;
}

function element(name, kind, text) {
  const made = document.createElement(name);
  if (kind !== "") made.className = kind;
  made.textContent = text;
  return made;
}
