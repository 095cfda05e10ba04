// The page as a whole: what is shown and selected, the search, and the keys.
"use strict";

const TABS = ["code", "passes", "memory", "source"];

const KEYS = [
  ["1 2 3 4", "code, passes, memory, source"],
  ["↑ ↓ or k j", "one line up or down; Page Up, Page Down, Home, End"],
  ["← →", "fold or unfold a function; in the chart of the memory: one step"],
  ["Enter", "go to the called function, or to the op that made the last operand"],
  ["/", "search; Enter and n go to the next match, N to the previous one"],
  ["b", "the program before or after the passes"],
  ["[ ]", "the previous pass, the next pass"],
  ["t", "the text as MLIR prints it, or shortened"],
  ["g", "the graph of the function, or of the calls; in it + − 0 zoom"],
  ["?", "these keys"],
];

class App {
  async start() {
    about = await part("about");
    this.tab = "code";
    this.match = -1;
    const select = (fn, op, from) => this.select(fn, op, from);
    this.code = new CodeView($("text"), select);
    this.graph = new GraphView($("graph"), $("graph-bar"), select);
    this.functions = new Rows($("functions"), (i) => this.item(this.calls[i]),
      (i) => this.select(this.calls[i].fn, -1));
    this.views = { passes: new PassView(), memory: new MemoryView(), source: new SourceView() };
    $("name").textContent = `@${about.name}`;
    this.addButtons();
    await this.showForm(about.forms.length - 1);
    addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.graph.show(this.form, this.fn, this.op)).observe($("side"));
    // In a notebook, the page gets no keys before the user selects it.
    if (window === parent) $("text").focus({ preventScroll: true });
    document.body.dataset.ready = true;
  }

  addButtons() {
    const forms = about.forms.map((name, i) => h("button", { onclick: () => this.showForm(i) }, name));
    if (forms.length > 1) $("forms").append(...forms);
    for (const tab of TABS.filter((name) => name !== "passes" || about.stages.length)) {
      const attributes = { role: "tab", id: `tab-${tab}`, "aria-controls": tab };
      $("tabs").append(h("button", { ...attributes, onclick: () => this.showTab(tab) }, tab));
    }
    const keys = KEYS.flatMap(([key, what]) => [h("dt", {}, key), h("dd", {}, what)]);
    $("help").append(h("h2", {}, "Keys"), h("dl", {}, ...keys),
      h("form", { method: "dialog" }, h("button", {}, "close")));
    $("help-button").addEventListener("click", () => $("help").showModal());
    $("query").addEventListener("input", () => this.find());
    for (const id of ["text", "graph"]) $(id).addEventListener("mouseleave", (event) => showTip(event, null));
  }

  async showForm(number) {
    const last = this.fn?.name;
    const shown = await form(number);
    Object.assign(this, { form: shown, number });
    [...$("forms").children].forEach((button, i) => button.setAttribute("aria-pressed", i === number));
    $("summary").textContent = [plural(shown.functions.length, "function"), plural(shown.ops, "op"),
      `${amount(shown.cost.total[0])} flop`, `${inBytes(shown.peak)} at the peak`].join(" · ");
    this.code.show(shown);
    this.find();
    this.calls = callsOf(shown);
    this.functions.setCount(this.calls.length);
    this.select(shown.byName.get(last) ?? shown.byName.get(shown.entry), -1);
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
    this.views[tab]?.show(this.form);
  }

  /** Selects an op, or the function if the op is -1. */
  select(fn, op, from) {
    [this.fn, this.op] = [fn, op];
    if (from !== "text") this.code.reveal(fn, op);
    this.functions.select(this.calls.findIndex((call) => call.fn === fn), false);
    this.graph.show(this.form, fn, op);
    $("details").replaceChildren(op >= 0 ? details(fn, op) : summary(fn));
  }

  goTo(fn, op) {
    this.showTab("code");
    this.select(fn, op);
  }

  item({ fn, level, isAgain }) {
    return h("div", { class: `row item${isAgain ? " quiet" : ""}`, style: `padding-left:${12 * level + 10}px` },
      h("span", { class: "grow" }, `@${fn.name}`),
      h("span", { class: "quiet" }, isAgain ? "↑" : fn.names.length));
  }

  // --- search and keys ---

  find() {
    const wanted = $("query").value.trim();
    this.code.search(wanted);
    this.match = -1;
    $("found").textContent = wanted ? this.code.matches.length.toLocaleString("en") : "";
  }

  search(text) {
    $("query").value = text;
    this.find();
    this.next(1);
  }

  next(by) {
    const { matches } = this.code;
    if (!matches.length) return;
    this.showTab("code");
    const from = this.match < 0 && by < 0 ? 0 : this.match;
    this.match = (from + by + matches.length) % matches.length;
    $("found").textContent = `${this.match + 1} of ${matches.length.toLocaleString("en")}`;
    this.code.rows.select(this.code.rowOf(...matches[this.match]));
  }

  key(event) {
    const isTyping = event.target.matches("input[type=search], select");
    if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
    if (event.key === "Escape") {
      $("query").value = "";
      this.find();
      $("text").focus();
    } else if (isTyping && event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
    else if (isTyping || !this.command(event.key)) return;
    event.preventDefault();
  }

  /** Runs the command of a key, wherever the focus is; returns whether there is one. */
  command(key) {
    const list = { code: this.code.rows, passes: this.views.passes.diff }[this.tab];
    const commands = {
      "/": () => $("query").focus(),
      "?": () => $("help").showModal(),
      n: () => this.next(1),
      N: () => this.next(-1),
      j: () => list?.select(list.selected + 1),
      k: () => list?.select(list.selected - 1),
      b: () => this.showForm((this.number + 1) % about.forms.length),
      "[": () => this.views.passes.step(-1),
      "]": () => this.views.passes.step(1),
      t: () => this.code.toggleCompact(),
      g: () => this.graph.set(this.graph.mode === "ops" ? "calls" : "ops"),
    };
    TABS.forEach((tab, i) => (commands[i + 1] = () => $(`tab-${tab}`)?.click()));
    commands[key]?.();
    return key in commands;
  }
}

/** The functions, each below its callers; the callees of a repeated one are left out. */
function callsOf(form) {
  const called = new Set(form.functions.flatMap((fn) => fn.callees));
  const roots = form.functions.filter((fn) => !fn.private || !called.has(fn.name));
  const [found, seen] = [[], new Set()];
  const pending = roots.map((fn) => [fn, 0]).reverse();
  while (pending.length) {
    const [fn, level] = pending.pop();
    found.push({ fn, level, isAgain: seen.has(fn) });
    if (!seen.has(fn)) pending.push(...fn.callees.map((name) => [form.byName.get(name), level + 1]).reverse());
    seen.add(fn);
  }
  return found;
}

/** The description of a function. */
function summary(fn) {
  const types = (values) => cut(values.map((v) => about.types[fn.types[v]]).join(", ") || "nothing", 400);
  const rows = { takes: types([...Array(fn.arity).keys()]), gives: types(fn.returned),
    ops: fn.names.length.toLocaleString("en"), memory: `${inBytes(most(fn.live))} at the peak` };
  const list = Object.entries(rows).flatMap(([what, value]) => [h("dt", {}, what), h("dd", {}, value)]);
  return h("div", { class: "details" }, h("h2", {}, `@${fn.name}`), h("dl", {}, ...list));
}

const app = new App();
app.start().catch((error) => {
  document.body.replaceChildren(h("p", { class: "failed" }, `This page cannot be shown: ${error}`));
  throw error;
});
