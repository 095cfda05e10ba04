// The lines of the user's program, with their costs.
"use strict";

class SourceView {
  show(form) {
    const { lines, total, uncounted } = form.cost;
    const greatest = (column) => most(lines.map((line) => line[column]).filter(Number.isFinite));
    this.most = { flops: greatest(1), bytes: greatest(3) };
    const others = Object.entries(uncounted).map(([name, n]) => `${name} × ${n}`).join(", ");
    const words = [total[1] && `${amount(total[1])} transcendental`,
      `${inBytes(total[2])} read and written, as if no op were fused`,
      others && `arithmetic not counted: ${others}`].filter(Boolean);
    const files = new Map();
    for (const [at, flops, slow, bytes, unbounded] of lines) {
      const [file, line] = about.positions[at];
      if (!files.has(file)) files.set(file, new Map());
      files.get(file).set(line, { flops, slow, bytes, unbounded });
    }
    $("source").replaceChildren(
      h("p", {}, h("b", {}, `${amount(total[0])} flop`), ...words.map((word) => ` · ${word}`)),
      ...[...files].map(([file, costs]) => this.file(file, costs)));
  }

  /** The lines of a file that the program refers to, with or without costs. */
  file(file, costs) {
    const source = about.source[file] ?? {};
    const lines = [...new Set([...costs.keys(), ...Object.keys(source).map(Number)])].sort((a, b) => a - b);
    const rows = lines.flatMap((line, i) => {
      const row = this.row(baseName(about.files[file]), line, source[line] ?? "", costs.get(line));
      const isNext = i === 0 || line === lines[i - 1] + 1;
      return isNext ? [row] : [h("tr", { class: "skip" }, h("td", { colspan: 4 }, "⋯")), row];
    });
    return h("div", {}, h("h2", {}, about.files[file] || "ops without a source line"),
      table(["flop", "bytes", "line", ""], rows, { class: "source" }));
  }

  row(file, line, text, cost) {
    const cell = (n, most, word) => {
      if (!n) return h("td");
      const width = Number.isFinite(n) ? Math.round((70 * n) / most) : 0;
      return h("td", { class: "n" }, h("i", { class: "share", style: `width:${width}px` }), word(n));
    };
    const { flops, slow, bytes, unbounded } = cost ?? {};
    const notes = [slow && `${amount(slow)} transcendental`, unbounded && "per iteration"];
    const note = h("span", { class: "quiet" }, `  ${notes.filter(Boolean).join(" · ")}`);
    const search = () => app.search(`${file}:${line}`);
    return h("tr", { class: cost ? null : "quiet" },
      cell(flops, this.most.flops, amount), cell(bytes, this.most.bytes, inBytes),
      h("td", { class: "n" }, line ? h("button", { class: "link", onclick: search }, line) : ""),
      h("td", {}, h("code", {}, text), note));
  }
}
