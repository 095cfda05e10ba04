// Memory over the steps of a function, and the values in it at a step.
"use strict";

const [WIDTH, HEIGHT] = [1000, 220];
const MOST_VALUES = 40;

class MemoryView {
  show(form) {
    this.form = form;
    const names = Object.keys(form.timelines);
    if (!names.includes(this.name)) this.name = names.includes(form.entry) ? form.entry : names[0];
    this.timeline = form.timelines[this.name];
    const { bytes, arguments: given, results } = this.timeline;
    this.peak = bytes.reduce((best, n, i) => (n > bytes[best] ? i : best), 0);
    const top = bytes[this.peak] ?? 0;
    const options = names.map((name) =>
      h("option", { value: name, selected: name === this.name }, `@${name}`));
    const choose = (event) => {
      this.name = event.target.value;
      this.show(form);
    };
    const bar = h("div", { class: "bar" },
      h("select", { "aria-label": "Function", onchange: choose }, ...options),
      h("p", {}, h("b", {}, inBytes(top)), " at the peak, besides ", inBytes(given), " of arguments and ",
        inBytes(results), " of results", h("span", { class: "quiet" },
          " · estimated, with XLA's fusion and inlining of calls taken into account")));
    $("memory").replaceChildren(bar);
    if (!top) return;
    this.readout = h("p", { id: "readout", "aria-live": "polite" });
    this.table = h("div");
    $("memory").append(this.chart(top), this.readout, this.table);
    this.pick(this.peak);
  }

  chart(top) {
    const { bytes } = this.timeline;
    const y = (n) => HEIGHT - (HEIGHT - 12) * (n / top);
    const x = (step) => (WIDTH * Math.min(step, bytes.length)) / bytes.length;
    // If there are too many steps to draw, several become one: their maximum.
    const each = Math.ceil(bytes.length / WIDTH);
    let path = `M0,${HEIGHT}`;
    for (let i = 0; i < bytes.length; i += each) {
      path += `V${y(most(bytes.slice(i, i + each)))}H${x(i + each)}`;
    }
    const marks = [0.25, 0.5, 0.75, 1].map((part) =>
      h("line", { class: "mark", x2: WIDTH, y1: y(part * top), y2: y(part * top) }));
    const svg = h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" },
      ...marks, h("path", { class: "area", d: `${path}V${HEIGHT}Z` }));
    // The slider lies over the chart; its thumb is the line at the step.
    this.slider = h("input", { type: "range", min: 0, max: bytes.length - 1,
      "aria-label": "Live bytes at each step", oninput: () => this.pick(+this.slider.value) });
    const axis = [1, 0.5, 0].map((part) => h("span", {}, inBytes(Math.round(part * top))));
    return h("figure", {}, h("div", { class: "axis" }, ...axis), h("div", { id: "chart" }, svg, this.slider));
  }

  /** Shows the values in memory at a step. */
  pick(step) {
    const { bytes, names, places, values } = this.timeline;
    this.step = this.slider.value = step;
    const text = [`step ${this.step + 1} of ${bytes.length}${this.step === this.peak ? ", the peak" : ""}`,
      `${inBytes(bytes[this.step])} at ${shortName(names[this.step])}`,
      userPosition(places[this.step])?.name].filter(Boolean).join(" · ");
    this.slider.setAttribute("aria-valuetext", text);
    this.readout.replaceChildren(text, " · ", this.link(this.step, "in the code"));
    const live = values.filter(([first, last]) => first <= this.step && this.step <= last);
    live.sort((a, b) => b[2] - a[2]);
    const rows = live.slice(0, MOST_VALUES).map((value) => this.row(...value));
    const rest = live.length - MOST_VALUES;
    const inside = bytes[this.step] - live.reduce((sum, value) => sum + value[2], 0);
    const note = (...words) => h("tr", { class: "quiet" }, ...words);
    if (inside) {
      rows.unshift(note(h("td", { class: "n" }, inBytes(inside)), h("td", { colspan: 4 }, "inside the functions that it runs")));
    }
    if (rest > 0) rows.push(note(h("td", { colspan: 5 }, `and ${rest} smaller ones`)));
    this.table.replaceChildren(table(["bytes", "type", "made by", "line", "in memory"], rows));
  }

  row(first, last, size, type) {
    const { names, places } = this.timeline;
    return h("tr", {}, h("td", { class: "n" }, inBytes(size)),
      h("td", {}, h("code", { class: "type" }, about.types[type])),
      h("td", {}, this.link(first, shortName(names[first]))),
      h("td", { class: "quiet" }, userPosition(places[first])?.name ?? ""),
      h("td", { class: "quiet" }, `steps ${first + 1} to ${last + 1}`));
  }

  link(step, text) {
    const go = () => app.goTo(this.form.byName.get(this.name), this.timeline.tops[step]);
    return h("button", { class: "link", onclick: go }, text);
  }
}

function table(titles, rows, attributes = {}) {
  const head = titles.map((title) => h("th", { scope: "col" }, title));
  return h("table", attributes, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
}
