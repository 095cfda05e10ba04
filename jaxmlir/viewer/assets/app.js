// The page as a whole: what is shown and selected, the keys, and the search.
"use strict";

const TABS = ["code", "passes", "memory", "source"];

const KEYS = [
  ["1 2 3 4", "code, passes, memory, source"],
  ["↑ ↓ or k j", "one line up or down"],
  ["← →", "fold or unfold a function; in the graph and the chart: move"],
  ["Enter", "go to the function that is called, or to what made the last operand"],
  ["/", "search; Enter and n go to the next, N to the one before"],
  ["b", "the program before or after the passes"],
  ["[ ]", "the pass before, the next pass"],
  ["t", "text as MLIR has it, or shorter"],
  ["g", "the graph: ops, or calls; + − 0 zoom"],
  ["?", "these keys"],
];

class App {
  async start() {
    about = await part("about");
    this.form = null;
    [this.tab, this.match] = ["code", -1];
    this.code = new CodeView($("text"), (fn, op, from) => this.select(fn, op, from));
    this.graph = new GraphView($("graph"), $("graph-bar"), (fn, op, from) => this.select(fn, op, from));
    this.passes = new PassView();
    this.memory = new MemoryView();
    this.source = new SourceView();
    $("name").textContent = `@${about.name}`;
    this.buttons();
    await this.showForm(about.forms.length - 1);
    $("query").addEventListener("input", () => this.find());
    addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.graph.show(this.form, this.fn, this.op)).observe($("side"));
    $("text").focus({ preventScroll: true });
    document.body.dataset.ready = Math.round(performance.now());
  }

  buttons() {
    if (about.forms.length > 1) {
      $("forms").append(...about.forms.map((name, i) => h("button", { onclick: () => this.showForm(i) }, name)));
    }
    const tabs = TABS.filter((tab) => tab !== "passes" || about.stages.length);
    $("tabs").append(...tabs.map((tab) => h("button", { role: "tab", id: `tab-${tab}`, "aria-controls": tab, onclick: () => this.showTab(tab) }, tab)));
    const help = $("help");
    help.append(h("h2", {}, "Keys"), h("dl", {}, ...KEYS.flatMap(([key, what]) => [h("dt", {}, key), h("dd", {}, what)])),
      h("form", { method: "dialog" }, h("button", {}, "close")));
    $("help-button").addEventListener("click", () => help.showModal());
    $("functions").addEventListener("keydown", (event) => this.treeKey(event));
    for (const id of ["text", "graph"]) $(id).addEventListener("mouseleave", (event) => showTip(event, null));
  }

  async showForm(number) {
    const last = this.fn?.name;
    this.form = await form(number);
    this.number = number;
    [...$("forms").children].forEach((button, i) => button.setAttribute("aria-pressed", i === number));
    const { form: shown } = this;
    $("summary").textContent = [plural(shown.functions.length, "function"), plural(shown.ops, "op"),
      `${amount(shown.cost.total[0])} flop`, `peak ${inBytes(shown.peak)}`].join(" · ");
    this.code.show(shown);
    this.find();
    this.fillFunctions();
    this.select(shown.byName.get(last) ?? shown.byName.get(shown.entry) ?? shown.functions[0], -1);
    this.showTab(this.tab);
  }

  showTab(tab) {
    this.tab = tab;
    for (const name of TABS) {
      $(name).hidden = name !== tab;
      $(`tab-${name}`)?.setAttribute("aria-selected", name === tab);
    }
    $("forms").hidden = tab === "passes";
    $("tip").hidden = true;
    if (tab === "code") this.code.rows.draw();
    else if (tab === "passes") this.passes.fill();
    else if (tab === "memory") this.memory.show(this.form);
    else this.source.show(this.form);
  }

  /** Selects an op, or a function where that is -1. */
  select(fn, op, from) {
    if (!fn) return;
    [this.fn, this.op] = [fn, op];
    if (from !== "text") this.code.reveal(fn, op);
    this.graph.show(this.form, fn, op);
    $("details").replaceChildren(op >= 0 ? details(this.form, fn, op) : this.about(fn));
    for (const item of $("functions").querySelectorAll("[role=treeitem]")) {
      const isIt = item.dataset.name === fn.name;
      item.setAttribute("aria-selected", isIt);
    }
  }

  goTo(fn, op) {
    this.showTab("code");
    this.select(fn, op);
  }

  about(fn) {
    const types = (values) => values.map((v) => about.types[fn.types[v]]).join(", ") || "nothing";
    const bytes = fn.live.reduce((a, b) => Math.max(a, b), 0);
    const rows = [["takes", cut(types([...Array(fn.arity).keys()]), 400)], ["gives", cut(types(fn.returned), 400)],
      ["ops", fn.names.length.toLocaleString("en")], ["memory", `${inBytes(bytes)} at the peak`]];
    return h("div", { class: "details" }, h("h2", {}, `@${fn.name}`), h("dl", {}, ...rows.flatMap(([what, value]) => [h("dt", {}, what), h("dd", {}, value)])));
  }

  // --- the functions ---

  fillFunctions() {
    const { form: shown } = this;
    const seen = new Set();
    const items = [];
    const called = new Set(shown.functions.flatMap((f) => f.callees));
    const roots = shown.functions.filter((f) => !f.private || !called.has(f.name));
    const stack = roots.reverse().map((f) => [f, 1]);
    while (stack.length) {
      const [fn, level] = stack.pop();
      const isAgain = seen.has(fn.name);
      items.push(this.item(fn, level, isAgain));
      if (isAgain) continue;
      seen.add(fn.name);
      fn.callees.map((name) => shown.byName.get(name)).filter(Boolean).reverse().forEach((f) => stack.push([f, level + 1]));
    }
    $("functions").replaceChildren(...items.slice(0, 1000));
    items[0]?.setAttribute("tabindex", 0);
  }

  item(fn, level, isAgain) {
    return h("div", { role: "treeitem", tabindex: -1, "aria-level": level, "data-name": fn.name, class: isAgain ? "quiet" : "",
      style: `padding-left:${6 + 12 * Math.min(level - 1, 10)}px`, onclick: () => this.select(fn, -1) },
    h("span", { class: "grow" }, `@${fn.name}`), h("span", { class: "quiet" }, isAgain ? "↑" : fn.names.length));
  }

  treeKey(event) {
    const item = document.activeElement;
    const to = { ArrowDown: item.nextElementSibling, ArrowUp: item.previousElementSibling }[event.key];
    if (to) {
      item.setAttribute("tabindex", -1);
      to.setAttribute("tabindex", 0);
      to.focus();
    } else if (event.key === "Enter" || event.key === " ") item.click();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // --- search and keys ---

  find() {
    this.code.search($("query").value.trim());
    this.match = -1;
    const { length } = this.code.matches;
    $("found").textContent = $("query").value.trim() ? String(length.toLocaleString("en")) : "";
    this.code.rows.draw();
  }

  search(text) {
    $("query").value = text;
    this.showTab("code");
    this.find();
    this.next(1);
  }

  next(by) {
    const { matches } = this.code;
    if (!matches.length) return;
    if (this.tab !== "code") this.showTab("code");
    this.match = (this.match + by + matches.length + (this.match < 0 && by < 0 ? 1 : 0)) % matches.length;
    const [fn, line] = matches[this.match];
    $("found").textContent = `${this.match + 1} of ${matches.length.toLocaleString("en")}`;
    this.code.rows.select(this.code.rowOf(fn, line));
  }

  key(event) {
    const isTyping = event.target.matches("input:not([type=checkbox]), select");
    if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
    if (event.key === "Escape") {
      if (isTyping) $("query").value = "";
      this.find();
      $("text").focus();
    } else if (isTyping && event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
    else if (isTyping || !this.command(event.key)) return;
    event.preventDefault();
  }

  /** What a key does wherever one is; whether it does anything. */
  command(key) {
    const list = { code: this.code.rows, passes: this.passes.diff }[this.tab];
    const commands = {
      "/": () => $("query").focus(),
      "?": () => $("help").showModal(),
      n: () => this.next(1),
      N: () => this.next(-1),
      j: () => list?.select(list.selected + 1),
      k: () => list?.select(list.selected - 1),
      b: () => this.showForm((this.number + 1) % about.forms.length),
      "[": () => this.passes.step(-1),
      "]": () => this.passes.step(1),
      t: () => {
        this.code.compact = !this.code.compact;
        this.code.rows.draw();
      },
      g: () => this.graph.set(this.graph.mode === "ops" ? "calls" : "ops"),
    };
    TABS.forEach((tab, i) => (commands[i + 1] = () => $(`tab-${tab}`) && this.showTab(tab)));
    if (!(key in commands)) return false;
    commands[key]();
    return true;
  }
}

const app = new App();
app.start().catch((error) => {
  document.body.replaceChildren(h("p", { class: "failed" }, `This page cannot be shown: ${error}`));
  throw error;
});
