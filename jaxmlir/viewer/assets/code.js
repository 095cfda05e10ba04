// The text of a program, highlighted; the description of an op.
"use strict";

const TOKENS = new RegExp(
  [
    /(?<string>"(?:[^"\\]|\\.)*")/,
    /(?<value>%[\w.$-]+(?:[#:]\d+)?)/,
    /(?<symbol>@(?:[\w.$-]+|"(?:[^"\\]|\\.)*"))/,
    /(?<type>(?:tensor|vector|memref|tuple|array|dense|![\w.]+)<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)/,
    /(?<short>\b(?:[fiu]|bf|c)\d+\w*(?:\[[^\]]*\])?)/,
    /(?<number>-?\b\d[\w.+-]*)/,
    /(?<word>[A-Za-z_][\w.]*)/,
  ].map((r) => r.source).join("|"),
  "g",
);

/** A line as elements, with a class for each kind of word. */
function paint(line) {
  const found = document.createDocumentFragment();
  let at = 0;
  for (const match of line.matchAll(TOKENS)) {
    const { string, word } = match.groups;
    const before = line.slice(at, match.index);
    if (before) found.append(before);
    at = match.index + match[0].length;
    const begins = /^\s*(?:%[^="]* = )?$/.test(line.slice(0, match.index));
    if (begins && string && line[at] === "(") {
      const [, prefix, rest] = /^"(jaxpr\.)?(.*)"$/.exec(string);
      found.append(h("span", { class: "quiet" }, `"${prefix ?? ""}`), h("b", {}, rest),
        h("span", { class: "quiet" }, '"'));
    } else if (begins && word) found.append(h("b", {}, word));
    else {
      const kind = Object.keys(match.groups).find((name) => match.groups[name]);
      found.append(h("span", { class: kind }, match[0]));
    }
  }
  found.append(line.slice(at));
  return found;
}

// Indentation, results, name, operands, attributes, types of results.
const GENERIC =
  /^(\s*)(?:(%[^=]*) = )?"([\w.]+)"\(([^)]*)\)(?: <\{.*?\}>)?(?: (\{.*\}))? : \((?:.*?)\) -> (.*)$/;

/** A line without redundant parts: prefixes, and the types of operands. */
function compact(line) {
  const match = GENERIC.exec(line);
  if (!match) return shortTypes(line);
  const [, indent, results, name, operands, attributes, types] = match;
  const gives = results ? `${results} = ` : "";
  const parts = [shortName(name), operands, attributes && shortTypes(attributes)].filter(Boolean);
  return `${indent}${gives}${parts.join(" ")} : ${shortTypes(types).replace(/^\((.*)\)$/, "$1")}`;
}

const shortTypes = (text) =>
  text
    .replace(/tensor<((?:[\d?]+x)*)(\w+)(, \{weak_type\})?>/g, (_, sizes, type, weak) =>
      `${type}[${sizes.slice(0, -1).replaceAll("x", ",")}]${weak ? "*" : ""}`)
    .replace(/array<i\d+(?:: )?([^>]*)>/g, "[$1]")
    .replace(/\b(\d+) : i\d+/g, "$1");

/** The text of all functions, which can be folded. */
class CodeView {
  constructor(host, select) {
    this.folded = new Set();
    this.compact = false;
    this.matches = [];
    const chosen = (i) => select(...this.at(i), "text");
    this.rows = new Rows(host, (i) => this.row(i), chosen);
    host.addEventListener("mouseover", (event) => this.hover(event));
    host.addEventListener("mouseleave", () => this.light(null));
    host.addEventListener("click", (event) => this.click(event));
    host.addEventListener("keydown", (event) => this.key(event));
  }

  show(form) {
    this.form = form;
    this.folded = new Set([...this.folded].filter((name) => form.byName.has(name)));
    this.layOut();
  }

  /** Numbers the lines that are visible, i.e. not folded away. */
  layOut() {
    this.starts = [];
    let count = 0;
    for (const fn of this.form.functions) {
      this.starts.push(count);
      count += (this.folded.has(fn.name) ? 1 : fn.lines.length) + 1;
    }
    this.rows.setCount(Math.max(0, count - 1));
  }

  /** The function of a row, and its line there. */
  place(row) {
    const index = this.starts.findLastIndex((start) => start <= row);
    return [this.form.functions[index], row - this.starts[index]];
  }

  at(row) {
    const [fn, line] = this.place(row);
    return [fn, fn.opOfLine[line] ?? -1];
  }

  row(i) {
    const [fn, line] = this.place(i);
    const isFolded = this.folded.has(fn.name);
    // An empty row separates functions.
    if (line >= (isFolded ? 1 : fn.lines.length)) return h("div", { class: "row" });
    const text = isFolded ? `${fn.lines[0]} … }` : fn.lines[line];
    const heat = fn.heat[fn.opOfLine[line]] ?? 0;
    const fold = line ? {} : { "data-fold": fn.name };
    const row = h("div", { class: `row${this.matched?.has(`${fn.index}:${line}`) ? " match" : ""}` },
      h("span", { class: "no" }, line || ""),
      h("span", { class: "heat" }, h("i", { style: `width:${Math.round(24 * heat)}px` })),
      h("span", { class: "fold", ...fold }, line ? "" : isFolded ? "▸" : "▾"),
      h("code", {}, paint(this.compact ? compact(text) : text)));
    if (this.lit && this.lit[0] === fn.index) {
      for (const value of row.querySelectorAll(".value")) {
        value.classList.toggle("lit", bare(value.textContent) === this.lit[1]);
      }
    }
    return row;
  }

  toggleCompact() {
    this.compact = !this.compact;
    this.rows.draw();
  }

  rowOf(fn, line) {
    if (line > 0 && this.folded.delete(fn.name)) this.layOut();
    return this.starts[fn.index] + line;
  }

  reveal(fn, op) {
    this.rows.select(this.rowOf(fn, fn.lineOf(op)), false);
  }

  fold(name, isFolded = !this.folded.has(name)) {
    this.folded[isFolded ? "add" : "delete"](name);
    this.layOut();
    this.rows.select(this.starts[this.form.byName.get(name).index], false);
  }

  // --- values ---

  /** Marks a value wherever its function uses it. */
  light(of) {
    if (String(this.lit) === String(of)) return;
    this.lit = of;
    this.rows.draw();
  }

  hover(event) {
    const row = event.target.closest("[data-row]");
    if (!row) return;
    const [fn, op] = this.at(+row.dataset.row);
    const isValue = event.target.classList.contains("value");
    this.light(isValue ? [fn.index, bare(event.target.textContent)] : null);
    showTip(event, op >= 0 ? () => details(fn, op) : null);
  }

  click(event) {
    const row = event.target.closest("[data-row]");
    if (event.target.dataset.fold) this.fold(event.target.dataset.fold);
    else if (row && event.target.classList.contains("symbol")) {
      const fn = this.form.byName.get(event.target.textContent.slice(1).replace(/^"(.*)"$/, "$1"));
      if (fn) app.select(fn, -1);
    }
  }

  key(event) {
    const [fn, op] = this.at(this.rows.selected);
    if (event.key === "ArrowLeft") this.fold(fn.name, true);
    else if (event.key === "ArrowRight") this.fold(fn.name, false);
    else if (event.key === "Enter" && fn.calls[op]) {
      app.select(this.form.byName.get(fn.calls[op][0]), -1);
    } else if (event.key === "Enter" && op >= 0) {
      app.select(fn, Math.max(-1, ...fn.operands[op].map((v) => fn.makers[v])));
    } else return;
    event.preventDefault();
  }

  // --- search ---

  search(query) {
    const wanted = query.toLowerCase();
    this.matches = [];
    this.matched = new Set();
    for (const fn of wanted ? this.form.functions : []) {
      fn.lines.forEach((line, i) => {
        const op = fn.opOfLine[i];
        const place = op >= 0 ? userPosition(fn.places[op])?.name.toLowerCase() : null;
        if (line.toLowerCase().includes(wanted) || place === wanted) {
          this.matches.push([fn, i]);
          this.matched.add(`${fn.index}:${i}`);
        }
      });
    }
    this.rows.draw();
  }
}

const bare = (value) => value.replace(/[#:]\d+$/, "");

/** The description of an op. */
function details(fn, op) {
  const rows = [];
  const say = (what, ...value) => rows.push(h("dt", {}, what), h("dd", {}, ...value));
  const types = fn.resultTypes(op);
  if (types.length) say(types.length > 1 ? "types" : "type", h("code", {}, types.join(", ")));
  const operands = fn.operands[op].map((v) => about.types[fn.types[v]]);
  if (operands.length) say("of", h("code", {}, operands.join(", ")));
  const [stack, frames] = about.places[fn.places[op]];
  frames.map(positionOf).filter(Boolean).slice(0, 4).forEach((position, i) => {
    const text = h("code", { class: "quiet" }, sourceLine(position).trim());
    say(i ? "called at" : "line", `${position.name} `, text);
  });
  if (stack) say("scope", h("code", {}, stack));
  const cost = fn.costs[op];
  if (cost) {
    const [flops, slow, bytes, isCounted] = cost;
    const words = [isCounted ? `${amount(flops)} flop` : "arithmetic not counted",
      slow && `${amount(slow)} transcendental`, `${inBytes(bytes)} read and written`];
    say("cost", words.filter(Boolean).join(" · "));
  }
  const kept = fn.kept.has(op) ? "its result is stored" : "no memory of its own";
  say("memory", `${inBytes(fn.live[op])} live here · ${kept}`);
  if (fn.calls[op]) say("calls", h("code", {}, fn.calls[op].map((name) => `@${name}`).join(", ")));
  return h("div", { class: "details" }, h("h2", {}, shortName(fn.names[op]),
    h("span", { class: "quiet" }, ` in @${fn.name}`)), h("dl", {}, ...rows));
}

let tipTimer;

/** Shows a tip beside the mouse, after a moment; hides it if there is nothing to show. */
function showTip(event, make) {
  clearTimeout(tipTimer);
  const tip = $("tip");
  if (!make) {
    tip.hidden = true;
    return;
  }
  const { clientX, clientY } = event;
  tipTimer = setTimeout(() => {
    tip.replaceChildren(make());
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(clientX + 12, innerWidth - width - 8))}px`;
    const below = clientY + 18 + height <= innerHeight;
    tip.style.top = `${below ? clientY + 18 : Math.max(4, clientY - height - 12)}px`;
  }, tip.hidden ? 250 : 60);
}
