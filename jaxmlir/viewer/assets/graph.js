// Graphs of calls, and of a function's ops; if there are many, several are folded into a node.
"use strict";

const MOST_NODES = 120;
const MOST_KIDS = 32;

/** The ops of a function as a tree: ops of one line are a group, and so are many in a row. */
class Folding {
  constructor(fn) {
    this.fn = fn;
    // The edges of constants and of their broadcasts would cross everything else.
    const quiet = (this.quiet = new Set());
    const returned = new Set(fn.returned.map((value) => fn.makers[value]));
    fn.names.forEach((name, op) => {
      const isSmall = name === "jaxpr.constant" || name === "jaxpr.broadcast_in_dim";
      const isPlain = fn.operands[op].every((value) => quiet.has(fn.makers[value]));
      if (isSmall && isPlain && !returned.has(op)) quiet.add(op);
    });
    const leaves = fn.names.map((_, op) => ({ op, ops: [op] })).filter(({ op }) => !quiet.has(op));
    this.top = leaves.length <= 60 ? leaves : this.grouped(this.byLine(leaves));
    this.open = new Set();
    this.parents = new Map();
    this.top.forEach((node) => this.adopt(node, null));
  }

  byLine(leaves) {
    const runs = [];
    for (const leaf of leaves) {
      const line = userPosition(this.fn.places[leaf.op])?.name ?? "";
      if (runs.at(-1)?.line === line) runs.at(-1).kids.push(leaf);
      else runs.push({ line, kids: [leaf] });
    }
    return runs.map(({ kids }) => (kids.length > 1 ? group(this.grouped(kids)) : kids[0]));
  }

  grouped(nodes) {
    while (nodes.length > MOST_KIDS) {
      const size = Math.ceil(nodes.length / Math.ceil(nodes.length / MOST_KIDS));
      const groups = [];
      for (let i = 0; i < nodes.length; i += size) groups.push(group(nodes.slice(i, i + size)));
      nodes = groups;
    }
    return nodes;
  }

  adopt(node, parent) {
    this.parents.set(node.kids ? node : node.op, parent);
    node.kids?.forEach((kid) => this.adopt(kid, node));
  }

  /** Unfolds a group and the groups around it; folds others if the picture gets too large. */
  unfold(group) {
    const path = [];
    for (let node = group; node; node = this.parents.get(node)) path.push(node);
    path.forEach((node) => this.open.add(node));
    if (this.shown().length > MOST_NODES) this.open = new Set(path);
  }

  shown() {
    const found = [];
    const walk = (node) => (this.open.has(node) ? node.kids.forEach(walk) : found.push(node));
    this.top.forEach(walk);
    return found;
  }
}

const group = (kids) => ({ kids, ops: kids.flatMap((kid) => kid.ops) });

/** The graph of a function's ops, or of the calls, in a scrolling element. */
class GraphView {
  constructor(host, bar, select) {
    Object.assign(this, { host, bar, onSelect: select, mode: "ops", foldings: new Map(), zoom: 1 });
    host.addEventListener("keydown", (event) => {
      const factor = { "+": 1.25, "=": 1.25, "-": 0.8 }[event.key];
      if (factor) this.resize(this.zoom * factor);
      else if (event.key === "0") this.fit();
      else if (event.key === "Enter") event.target.dispatchEvent(new MouseEvent("click"));
    });
  }

  show(form, fn, op) {
    if (form !== this.form) this.foldings.clear();
    Object.assign(this, { form, fn, op });
    if (this.host.clientWidth === 0) return;
    if (!this.foldings.has(fn)) this.foldings.set(fn, new Folding(fn));
    const folding = this.foldings.get(fn);
    const isOps = this.mode === "ops";
    if (op >= 0 && isOps) folding.unfold(folding.parents.get(op));
    const button = (text, onclick, more = {}) => h("button", { onclick, ...more }, text);
    const choose = (mode, text) => button(text, () => this.set(mode), { "aria-pressed": this.mode === mode });
    this.bar.replaceChildren(
      choose("ops", `@${fn.name}`), choose("calls", "calls"), h("span", { class: "space" }),
      button("fold", () => this.foldAll(), { disabled: !isOps || !folding.open.size }),
      button("fit", () => this.fit()));
    const isAll = !isOps && form.functions.length <= MOST_NODES;
    const shown = [this.mode, isAll || fn.index, ...[...folding.open].map((node) => node.ops[0])].join();
    if (shown !== this.shown || form !== this.shownForm) {
      this.draw(isOps ? this.ofOps(folding) : this.ofCalls(isAll));
      this.fit();
    }
    [this.shown, this.shownForm] = [shown, form];
    this.mark();
  }

  set(mode) {
    this.mode = mode;
    this.show(this.form, this.fn, this.op);
  }

  foldAll() {
    this.foldings.get(this.fn).open.clear();
    this.show(this.form, this.fn, -1);
  }

  // --- nodes and edges ---

  ofOps(folding) {
    const { fn } = this;
    const nodes = [];
    const isMany = fn.arity > 24; // arguments, which then are one node
    const owner = new Map();
    const given = new Map();
    for (const node of folding.shown()) {
      const id = node.kids ? `g${node.ops[0]}` : `o${node.op}`;
      node.ops.forEach((op) => owner.set(op, id));
      nodes.push(node.kids ? this.groupNode(id, node, folding) : this.opNode(id, node.op));
    }
    const edges = new Map();
    const link = (value, to) => {
      const id = isMany ? "a" : `a${value}`;
      if (value < fn.arity && !given.has(id)) given.set(id, this.argumentNode(id, value, isMany));
      const from = value < fn.arity ? id : owner.get(fn.makers[value]);
      if (from && to && from !== to) edges.set(`${from} ${to}`, [from, to]);
    };
    fn.operands.forEach((operands, op) => {
      if (!folding.quiet.has(op)) operands.forEach((value) => link(value, owner.get(op)));
    });
    fn.returned.forEach((value) => link(value, "return"));
    const end = { id: "return", kind: "end", text: "return", small: "" };
    return { nodes: [...given.values(), ...nodes, end], edges: [...edges.values()] };
  }

  argumentNode(id, value, isMany) {
    const { fn } = this;
    if (isMany) return { id, kind: "end", text: plural(fn.arity, "argument"), small: "" };
    const name = fn.name === this.form.entry ? about.arguments[value] : null;
    return { id, kind: "end", text: name || `%arg${value}`, small: about.types[fn.types[value]] };
  }

  opNode(id, op) {
    const { fn } = this;
    const types = fn.resultTypes(op);
    return { id, op, kind: fn.calls[op] ? "call" : "op", text: shortName(fn.names[op]),
      small: types.length > 2 ? `${types[0]}, … (${types.length})` : types.join(", "), heat: fn.heat[op] };
  }

  groupNode(id, node, folding) {
    const { fn } = this;
    const { ops } = node;
    const lines = [...new Set(ops.map((op) => userPosition(fn.places[op])?.name).filter(Boolean))];
    const counts = new Map();
    ops.forEach((op) => counts.set(fn.names[op], (counts.get(fn.names[op]) ?? 0) + 1));
    const often = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 2).map(([name]) => shortName(name));
    const where = lines.length ? ` · ${lines[0]}${lines.length > 1 ? " …" : ""}` : "";
    const unfold = () => {
      folding.unfold(node);
      this.show(this.form, fn, -1);
    };
    return { id, kind: "group", text: plural(ops.length, "op") + where, unfold,
      small: often.join(", ") + (counts.size > 2 ? ", …" : ""), heat: most(ops.map((op) => fn.heat[op])) };
  }

  /** All calls, or those around a function. */
  ofCalls(isAll) {
    const { form, fn } = this;
    const near = new Set([fn.name, ...fn.callees]);
    const isShown = (f) => isAll || near.has(f.name) || f.callees.includes(fn.name);
    const shown = form.functions.filter(isShown).slice(0, MOST_NODES);
    const names = new Set(shown.map((f) => f.name));
    const nodes = shown.map((f) => ({ id: f.name, fn: f, kind: f.private ? "op" : "call",
      text: `@${f.name}`, small: plural(f.names.length, "op") }));
    const edges = shown.flatMap((f) => f.callees.map((callee) => [f.name, callee]));
    return { nodes, edges: edges.filter(([from, to]) => names.has(to) && from !== to) };
  }

  // --- drawing ---

  draw({ nodes, edges }) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "TB", nodesep: 14, ranksep: 28, marginx: 12, marginy: 12 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const node of nodes) {
      node.text = cut(node.text, 34);
      node.small = cut(node.small, 40);
      node.width = Math.max(46, 7.3 * node.text.length, 6.1 * node.small.length) + 20;
      node.height = node.small ? 38 : 24;
      graph.setNode(node.id, node);
    }
    edges.forEach(([from, to]) => graph.setEdge(from, to));
    dagre.layout(graph);
    const paths = graph.edges().map((edge) => h("path", {
      class: "edge", "data-from": edge.v, "data-to": edge.w, d: curve(graph.edge(edge).points) }));
    this.size = graph.graph();
    const viewBox = `0 0 ${this.size.width} ${this.size.height}`;
    this.svg = h("svg", { viewBox }, ...paths, ...nodes.map((node) => this.element(node)));
    this.host.replaceChildren(this.svg);
  }

  element(node) {
    const { width, height } = node;
    const isButton = node.unfold || node.fn || node.op >= 0;
    const tip = node.op >= 0 ? () => details(this.fn, node.op) : null;
    const cost = { class: "cost", x: 1, y: height - 3, height: 2, width: Math.round((width - 2) * node.heat) };
    return h("g", {
      class: `node ${node.kind}`, "data-id": node.id, ...(isButton ? { tabindex: 0, role: "button" } : {}),
      transform: `translate(${node.x - width / 2},${node.y - height / 2})`,
      onclick: () => this.choose(node),
      onmouseover: (event) => showTip(event, tip),
      onmouseout: (event) => showTip(event, null),
    },
    h("rect", { width, height, rx: node.kind === "end" ? 12 : 4 }),
    node.heat > 0.02 ? h("rect", cost) : null,
    h("text", { x: width / 2, y: 16 }, node.text),
    node.small ? h("text", { class: "small", x: width / 2, y: 30 }, node.small) : null);
  }

  choose(node) {
    if (node.unfold) node.unfold();
    else if (node.fn) this.onSelect(node.fn, -1, "calls");
    else if (node.op >= 0) this.onSelect(this.fn, node.op, "graph");
  }

  /** Marks the selected node and its edges. */
  mark() {
    const id = this.mode === "ops" ? `o${this.op}` : this.fn.name;
    for (const element of this.svg.children) {
      const { from, to, id: own } = element.dataset;
      element.classList.toggle("selected", own === id || from === id || to === id);
      if (own === id) element.scrollIntoView({ block: "center", inline: "center" });
    }
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.host;
    this.resize(Math.max(0.7, Math.min(1, width / this.size.width, height / this.size.height)));
    this.host.scrollLeft = (this.svg.clientWidth - width) / 2;
  }

  resize(zoom) {
    this.zoom = Math.max(0.1, Math.min(3, zoom));
    this.svg.setAttribute("width", this.size.width * this.zoom);
    this.svg.setAttribute("height", this.size.height * this.zoom);
  }
}

const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** A smooth curve along points. */
function curve([first, ...rest]) {
  const last = rest.at(-1);
  const bends = rest.slice(0, -1).map(({ x, y }, i) => {
    const next = i === rest.length - 2 ? last : { x: (x + rest[i + 1].x) / 2, y: (y + rest[i + 1].y) / 2 };
    return `Q${x},${y} ${next.x},${next.y}`;
  });
  return `M${first.x},${first.y}${bends.join("")}L${last.x},${last.y}`;
}
