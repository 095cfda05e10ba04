// Memory over the steps of a function, and costs beside the source.
"use strict";

const WIDTH = 1000;
const HEIGHT = 220;

class MemoryView {
  show(form) {
    this.form = form;
    const names = Object.keys(form.timelines);
    if (!names.includes(this.name)) this.name = names.includes(form.entry) ? form.entry : names[0];
    this.timeline = form.timelines[this.name];
    const host = $("memory");
    if (!this.timeline || !this.timeline.bytes.length) {
      host.replaceChildren(h("p", { class: "quiet" }, "There are no ops."));
      return;
    }
    const { bytes, arguments: given, results } = this.timeline;
    this.peak = bytes.reduce((best, n, i) => (n > bytes[best] ? i : best), 0);
    const choose = h("select", { "aria-label": "Function", onchange: (event) => {
      this.name = event.target.value;
      this.show(form);
    } }, ...names.map((name) => h("option", { value: name, selected: name === this.name }, `@${name}`)));
    this.readout = h("p", { id: "readout", "aria-live": "polite" });
    this.table = h("div", { id: "live" });
    host.replaceChildren(
      h("div", { class: "bar" }, choose, h("p", {}, h("b", {}, inBytes(bytes[this.peak])), " at the peak, besides ",
        `${inBytes(given)} of arguments and ${inBytes(results)} of results · estimated: what XLA stores and fuses, calls inlined`)),
      this.chart(), this.readout, this.table);
    this.pick(this.peak);
  }

  chart() {
    const { bytes } = this.timeline;
    const top = Math.max(1, bytes[this.peak]);
    this.x = (step) => (WIDTH * (step + 0.5)) / bytes.length;
    const y = (n) => HEIGHT - (HEIGHT - 12) * (n / top);
    // Of more steps than can be drawn, those of one place are one: the most.
    const each = Math.max(1, Math.floor(bytes.length / WIDTH));
    let path = `M0,${HEIGHT}`;
    for (let i = 0; i < bytes.length; i += each) {
      const most = bytes.slice(i, i + each).reduce((a, b) => Math.max(a, b), 0);
      path += `L${(WIDTH * i) / bytes.length},${y(most)}H${(WIDTH * Math.min(bytes.length, i + each)) / bytes.length}`;
    }
    this.cursor = h("line", { class: "cursor", y1: 0, y2: HEIGHT });
    const marks = [0.25, 0.5, 0.75, 1].map((part) => h("line", { class: "mark", x1: 0, x2: WIDTH, y1: y(part * top), y2: y(part * top) }));
    const svg = h("svg", { id: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", tabindex: 0, role: "slider",
      "aria-label": "Live bytes over the steps; arrows move along", "aria-valuemin": 0, "aria-valuemax": bytes.length - 1 },
    ...marks, h("path", { class: "area", d: `${path}V${HEIGHT}Z` }), this.cursor);
    const stepAt = (event) => Math.max(0, Math.min(bytes.length - 1, Math.floor((event.offsetX / svg.clientWidth) * bytes.length)));
    svg.addEventListener("pointerdown", (event) => {
      this.pick(stepAt(event));
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => event.buttons && this.pick(stepAt(event)));
    svg.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -50, PageDown: 50, Home: -Infinity, End: Infinity };
      if (!(event.key in moves)) return;
      event.preventDefault();
      this.pick(Math.max(0, Math.min(bytes.length - 1, this.step + moves[event.key])));
    });
    const axis = h("div", { class: "axis" }, ...[1, 0.5, 0].map((part) => h("span", {}, inBytes(Math.round(part * top)))));
    return h("figure", {}, axis, svg);
  }

  /** Shows what is in memory at a step. */
  pick(step) {
    this.step = step;
    const { bytes, names, values } = this.timeline;
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.x(step));
    const chart = $("chart");
    const where = userPosition(this.timeline.places[step]);
    const text = `step ${step + 1} of ${bytes.length.toLocaleString("en")}${step === this.peak ? ", the peak" : ""}: ${inBytes(bytes[step])} at ${shortName(names[step])}${where ? `, ${where.name}` : ""}`;
    chart.setAttribute("aria-valuenow", step);
    chart.setAttribute("aria-valuetext", text);
    this.readout.replaceChildren(text, " ", this.link(step, "show in the code"));
    const live = values.filter(([first, last]) => first <= step && step <= last).sort((a, b) => b[2] - a[2]);
    const inside = bytes[step] - live.reduce((sum, value) => sum + value[2], 0);
    const shown = live.slice(0, 40).map(([first, last, size, type]) => h("tr", {},
      h("td", { class: "n" }, inBytes(size)), h("td", {}, h("code", { class: "type" }, about.types[type])),
      h("td", {}, this.link(first, shortName(names[first]))),
      h("td", { class: "quiet" }, userPosition(this.timeline.places[first])?.name ?? ""),
      h("td", { class: "quiet" }, `steps ${first + 1} to ${last + 1}`)));
    if (inside > 0) shown.unshift(h("tr", {}, h("td", { class: "n" }, inBytes(inside)), h("td", { class: "quiet", colspan: 4 }, "within what the op runs")));
    if (live.length > 40) shown.push(h("tr", {}, h("td", { colspan: 5, class: "quiet" }, `and ${live.length - 40} smaller ones`)));
    this.table.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, ...["bytes", "type", "made by", "line", "in memory"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, ...shown)));
  }

  link(step, text) {
    const fn = this.form.byName.get(this.name);
    return h("button", { class: "link", onclick: () => app.goTo(fn, this.timeline.tops[step]) }, text);
  }
}

class SourceView {
  constructor() {
    this.byCost = false;
  }

  show(form) {
    this.form = form;
    const { lines, total, uncounted } = form.cost;
    const rows = lines.map(([at, flops, slow, bytes, unbounded]) => ({ position: positionOf(at), flops, slow, bytes, unbounded }));
    const most = (key) => rows.reduce((m, row) => (Number.isFinite(row[key]) ? Math.max(m, row[key]) : m), 1);
    this.most = { flops: most("flops"), bytes: most("bytes") };
    const others = Object.entries(uncounted).map(([name, n]) => `${name} × ${n}`).join(", ");
    const order = h("label", {}, h("input", { type: "checkbox", checked: this.byCost, onchange: (event) => {
      this.byCost = event.target.checked;
      this.show(form);
    } }), " costliest first");
    $("source").replaceChildren(h("div", { class: "bar" }, order,
      h("p", {}, h("b", {}, `${amount(total[0])} flop`), total[1] ? ` · ${amount(total[1])} transcendental` : "", ` · ${inBytes(total[2])} read and written, as if no op were fused`,
        others ? h("span", { class: "quiet" }, ` · not counted: ${others}`) : null)),
    this.byCost ? this.table(rows.sort((a, b) => b.flops - a.flops || b.bytes - a.bytes), true) : this.files(rows));
  }

  files(rows) {
    const byFile = grouped(rows, (row) => row.position?.file);
    const sections = [...byFile].map(([file, own]) => {
      const known = new Map(own.map((row) => [row.position?.line, row]));
      const lines = Object.keys(about.source[file] ?? {}).map(Number).filter((line) => !known.has(line));
      lines.forEach((line) => known.set(line, { position: { file, line, name: `${baseName(about.files[file])}:${line}` } }));
      const sorted = [...known.values()].sort((a, b) => (a.position?.line ?? 0) - (b.position?.line ?? 0));
      return h("div", {}, h("h2", {}, about.files[file] || "of no known line"), this.table(sorted, false));
    });
    return h("div", {}, ...sections);
  }

  table(rows, isMixed) {
    let last = null;
    const body = rows.flatMap((row) => {
      const isAfter = isMixed || last === null || !row.position || row.position.line === last + 1;
      last = row.position?.line ?? null;
      const gap = isAfter ? [] : [h("tr", { class: "skip" }, h("td", { colspan: 4 }, "⋯"))];
      return [...gap, this.row(row, isMixed)];
    });
    return h("table", { class: "source" }, h("thead", {}, h("tr", {},
      ...["flop", "bytes", "line", ""].map((t) => h("th", { scope: "col" }, t)))), h("tbody", {}, ...body));
  }

  row({ position, flops, slow, bytes, unbounded }, isMixed) {
    const share = (n, most) => (Number.isFinite(n) ? Math.round((70 * n) / most) : 0);
    const cell = (n, most, text) => (n
      ? h("td", { class: "n" }, h("i", { class: "share", style: `width:${share(n, most)}px` }), text(n))
      : h("td"));
    const cells = [cell(flops, this.most.flops, amount), cell(bytes, this.most.bytes, inBytes)];
    const line = position ? h("button", { class: "link", title: "its ops", onclick: () => app.search(position.name) }, isMixed ? position.name : position.line) : "—";
    const notes = [slow ? `${amount(slow)} transcendental` : "", unbounded ? "per iteration" : ""].filter(Boolean).join(" · ");
    return h("tr", { class: flops === undefined ? "quiet" : "" }, ...cells, h("td", { class: "n" }, line),
      h("td", {}, h("code", {}, position ? sourceLine(position) : ""), notes ? h("span", { class: "quiet" }, `  ${notes}`) : null));
  }
}

function grouped(items, key) {
  const found = new Map();
  items.forEach((item) => found.set(key(item), [...(found.get(key(item)) ?? []), item]));
  return found;
}
