// A list of which only the visible rows are in the document.
"use strict";

const ROW = 20; // pixels

class Rows {
  /**
   * @param host the element to fill; it scrolls.
   * @param render makes the element of a row.
   * @param select is told which row was selected.
   */
  constructor(host, render, select) {
    Object.assign(this, { host, render, onSelect: select, count: 0, selected: -1 });
    this.layer = h("div", { class: "layer" });
    host.append(this.layer);
    host.addEventListener("scroll", () => this.draw());
    host.addEventListener("click", (event) => {
      const row = event.target.closest("[data-row]");
      if (row) this.select(+row.dataset.row);
    });
    host.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(host);
  }

  setCount(count) {
    this.count = count;
    this.layer.style.height = `${count * ROW}px`;
    this.selected = Math.min(this.selected, count - 1);
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.host.scrollTop / ROW) - 5);
    const last = Math.min(this.count, first + Math.ceil(this.host.clientHeight / ROW) + 10);
    const rows = [];
    for (let i = first; i < last; i++) {
      const row = this.render(i);
      const isSelected = i === this.selected;
      row.dataset.row = i;
      row.id = `${this.host.id}-${i}`;
      row.setAttribute("role", "option");
      row.setAttribute("aria-setsize", this.count);
      row.setAttribute("aria-posinset", i + 1);
      row.setAttribute("aria-selected", isSelected);
      rows.push(row);
    }
    this.layer.style.paddingTop = `${first * ROW}px`;
    this.layer.replaceChildren(...rows);
    this.host.setAttribute("aria-activedescendant", `${this.host.id}-${this.selected}`);
  }

  /** Selects a row and scrolls to it; calls onSelect unless `tell` is false. */
  select(row, tell = true) {
    if (!this.count) return;
    this.selected = Math.max(0, Math.min(this.count - 1, row));
    const [top, height] = [this.selected * ROW, this.host.clientHeight];
    if (top < this.host.scrollTop || top + ROW > this.host.scrollTop + height) {
      this.host.scrollTop = top - height / 3;
    }
    this.draw();
    if (tell) this.onSelect(this.selected);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.host.clientHeight / ROW) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page,
      Home: -Infinity, End: Infinity };
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.select(this.selected + moves[event.key]);
  }
}
