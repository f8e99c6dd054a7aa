// A list of any length, of which only the rows on screen are elements.

import { make } from "./dom.js";

const ROW = 26;
const PAGE = 100;
const MAX_HEIGHT = 10_000_000; // of an element, in pixels, that browsers support

export class VirtualList {
  // `load(from, to)` answers some items, and `render(item, index)` makes the children of a row.
  constructor(element, load, render) {
    this.element = element;
    this.load = load;
    this.render = render;
    this.spacer = make("div", { className: "spacer" });
    element.replaceChildren(this.spacer);
    this.pages = new Map();
    this.total = 0;
    this.rows = new Map();
    element.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(element);
  }

  reset(total) {
    this.total = total;
    this.pages.clear();
    this.spacer.style.height = `${Math.min(MAX_HEIGHT, total * ROW)}px`;
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.draw();
  }

  item(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  draw() {
    const height = this.element.clientHeight;
    const scale = Math.max(1, (this.total * ROW) / MAX_HEIGHT);
    const top = this.element.scrollTop;
    const first = Math.max(0, Math.floor((top * scale) / ROW));
    const last = Math.min(this.total, first + Math.ceil(height / ROW) + 2);
    for (const [index, row] of this.rows) {
      if (index < first || index >= last) {
        row.remove();
        this.rows.delete(index);
      }
    }
    for (let page = Math.floor(first / PAGE); page * PAGE < last; page += 1) this.fetch(page);
    for (let index = first; index < last; index += 1) {
      const item = this.item(index);
      let row = this.rows.get(index);
      if (!row) {
        row = make("div", { className: "row" });
        this.rows.set(index, row);
        this.element.append(row);
      }
      row.style.top = `${top + index * ROW - top * scale}px`;
      if (item && row.item !== item) {
        row.item = item;
        row.replaceChildren(...this.render(item, index, row));
      }
    }
  }

  async fetch(page) {
    if (this.pages.has(page)) return;
    const pages = this.pages;
    pages.set(page, null);
    const items = await this.load(page * PAGE, (page + 1) * PAGE);
    if (this.pages !== pages || !items) pages.delete(page);
    else {
      pages.set(page, items);
      this.draw();
    }
  }
}
