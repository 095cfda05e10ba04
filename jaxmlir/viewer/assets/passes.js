// What each pass did: the functions that it changed, before and after, side by side.
"use strict";

/** The pairs of indices of equal lines in two texts, in order; at last the two lengths. */
function* aligned(a, b) {
  let [i, j] = [0, 0];
  for (const [from, toA, , toB] of myers.diff(a, b)) {
    while (i < from) yield [i++, j++];
    [i, j] = [toA, toB];
  }
  while (i < a.length) yield [i++, j++];
  yield [a.length, b.length];
}

const VALUES = /%[\w$.-]+/g;

/** The lines of two texts side by side. Lines are the same if only values are renamed. */
function compared(before, after) {
  const keys = (text) => {
    const places = new Map(text.ops.map((line, op) => [line, text.places[op]]));
    return text.lines.map((line, i) => `${line.replace(VALUES, "%")} ${places.get(i) ?? ""}`);
  };
  const [a, b] = [before.lines, after.lines];
  const rows = [];
  const called = new Map();
  const name = (line) => /^\s*(%[\w$.-]+)(?::\d+)? = /.exec(line)?.[1];
  let [i, j] = [0, 0];
  for (const [atA, atB] of aligned(keys(before), keys(after))) {
    while (i < atA || j < atB) {
      // Removed and added lines stand side by side.
      rows.push({ kind: "changed", a: i < atA ? i++ : -1, b: j < atB ? j++ : -1 });
    }
    if (atA === a.length) break;
    const [lineA, lineB] = [a[atA], b[atB]];
    if (name(lineA)) called.set(name(lineA), name(lineB));
    const translated = lineA.replace(VALUES, (value) => {
      return called.get(value) ?? (value.startsWith("%arg") ? value : "gone");
    });
    rows.push({ kind: translated === lineB ? "same" : "operands", a: atA, b: atB });
    [i, j] = [atA + 1, atB + 1];
  }
  return rows;
}

const CONTEXT = 3;

const remarkRow = ([text, position]) => ({ kind: "remark", text, position });

class PassView {
  constructor() {
    this.stage = 0;
    this.opened = new Set();
    this.list = new Rows($("pass-list"), (i) => this.item(i), (i) => this.showStage(this.shown[i]));
    this.diff = new Rows($("diff"), (i) => this.row(i), (i) => this.lines(i));
    $("only-changes").addEventListener("change", () => this.show());
  }

  show() {
    const isOnly = $("only-changes").checked;
    this.shown = about.stages.map((_, i) => i).slice(1)
      .filter((i) => !isOnly || about.stages[i].functions || about.stages[i].remarks.length);
    this.list.setCount(this.shown.length);
    const at = Math.max(0, this.shown.indexOf(this.stage));
    if (this.shown.length) this.list.select(at);
    else $("pass-head").textContent = "No pass changed anything.";
  }

  step(by) {
    this.list.select(this.list.selected + by);
  }

  item(i) {
    const number = this.shown[i];
    const stage = about.stages[number];
    const change = stage.ops - about.stages[number - 1].ops;
    return h("div", { class: `row pass${stage.functions ? "" : " quiet"}` },
      h("span", { class: "grow" }, shortName(stage.name)),
      h("span", { class: "remarks", title: "remarks" }, stage.remarks.length || ""),
      h("span", { class: "change" }, change ? `${change > 0 ? "+" : "−"}${Math.abs(change)}` : ""));
  }

  async showStage(number) {
    this.stage = number;
    this.opened.clear();
    const stage = about.stages[number];
    const [before, after] = [await textsAfter(number - 1), await textsAfter(number)];
    if (this.stage !== number) return;
    this.texts = { before, after };
    const added = [...after.keys()].filter((name) => !before.has(name)).length;
    const removed = [...before.keys()].filter((name) => !after.has(name)).length;
    const words = [`${plural(about.stages[number - 1].ops, "op")} → ${stage.ops.toLocaleString("en")}`,
      added && `${plural(added, "function")} added`, removed && `${plural(removed, "function")} removed`,
      plural(stage.remarks.length, "remark"), `${+(1000 * stage.seconds).toPrecision(2)} ms`];
    const text = words.filter(Boolean).join(" · ");
    $("pass-head").replaceChildren(h("h2", {}, stage.name), h("p", { class: "quiet" }, text));
    this.sections = this.compare(stage, before, after);
    this.layOut();
    $("diff").scrollTop = 0;
    this.diff.selected = -1;
    const first = this.rows.findIndex((row) => row.kind === "changed" || row.kind === "operands");
    if (first >= 0) this.diff.select(first);
    else $("diff-line").replaceChildren();
  }

  /** The rows of each changed function, with the remarks at their ops. */
  compare(stage, before, after) {
    const sections = [];
    for (const name of new Set([...before.keys(), ...after.keys()])) {
      const [a, b] = [before.get(name), after.get(name)];
      if (a === b) continue;
      const none = { lines: [], ops: [], places: [] };
      const rows = b ? compared(a ?? none, b).map((row) => ({ ...row, name })) : [];
      const note = a && b ? "" : b ? "  new" : `  removed, ${plural(a.ops.length, "op")}`;
      sections.push({ name, note, rows: a && b ? this.withRemarks(rows, name, a, stage) : rows });
    }
    const shown = new Set(sections.filter(({ rows }) => rows.length).map(({ name }) => name));
    const others = stage.remarks.filter(([, , name]) => !shown.has(name));
    if (others.length) sections.push({ name: null, note: "", rows: others.map(remarkRow) });
    return sections;
  }

  withRemarks(rows, name, text, stage) {
    const at = new Map();
    for (const remark of stage.remarks.filter((r) => r[2] === name)) {
      const line = text.ops[remark[3]];
      at.set(line, [...(at.get(line) ?? []), remarkRow(remark)]);
    }
    return rows.flatMap((row) => [row, ...(at.get(row.a) ?? [])]);
  }

  /** Puts the sections one after the other; a gap replaces a long run of equal lines. */
  layOut() {
    const shown = [];
    for (const { name, note, rows } of this.sections) {
      shown.push([{ kind: "function", name, note }]);
      let i = 0;
      while (i < rows.length) {
        let end = i;
        while (end < rows.length && rows[end].kind === "same") end++;
        const [from, to] = [i === 0 ? i + 1 : i + CONTEXT, end - CONTEXT];
        const key = `${name} ${i}`;
        if (to - from > 2 && !this.opened.has(key)) {
          shown.push(rows.slice(i, from), [{ kind: "gap", key, count: to - from }], rows.slice(to, end));
        } else shown.push(rows.slice(i, end));
        shown.push(rows.slice(end, end + 1));
        i = end + 1;
      }
    }
    this.rows = shown.flat();
    this.diff.setCount(this.rows.length);
  }

  sides(row) {
    const { before, after } = this.texts;
    return [before.get(row.name)?.lines[row.a], after.get(row.name)?.lines[row.b]];
  }

  row(i) {
    const row = this.rows[i];
    if (row.kind === "function") {
      const title = row.name === null ? "remarks on other ops" : `@${row.name}`;
      return h("div", { class: "row head" }, title, h("span", { class: "quiet" }, row.note));
    }
    if (row.kind === "gap") return h("div", { class: "row gap" }, `${plural(row.count, "line")} unchanged`);
    if (row.kind === "remark") {
      const place = positionOf(row.position);
      return h("div", { class: "row remark", title: row.text }, place ? `${place.name}  ` : "", row.text);
    }
    const side = (line, kind, number) => h("code", { class: line === undefined ? "none" : kind },
      h("span", { class: "no" }, number > 0 ? number : ""), line === undefined ? "" : paint(compact(line)));
    const [a, b] = this.sides(row);
    const kind = (own) => (row.kind === "changed" ? own : row.kind);
    return h("div", { class: "row pair" }, side(a, kind("out"), row.a), side(b, kind("in"), row.b));
  }

  /** Shows the selected line in full below the list; opens a gap. */
  lines(i) {
    const row = this.rows[i];
    if (row.kind === "gap") {
      this.opened.add(row.key);
      this.layOut();
    }
    if (row.kind === "remark") return $("diff-line").replaceChildren(h("p", {}, row.text));
    const [a, b] = this.sides(row);
    const shown = row.kind === "same" ? [[b, ""]] : [[a, "out"], [b, "in"]];
    const lines = shown.filter(([text]) => text !== undefined);
    const painted = lines.map(([text, kind]) => h("code", { class: kind }, paint(text.trim())));
    $("diff-line").replaceChildren(...painted);
  }
}
