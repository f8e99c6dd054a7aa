// A list of any length, of which only the rows on screen are elements.
// It is one stop of the Tab key: arrows move between rows, Space presses the checkbox of a row, Enter its
// name, and Left and Right fold it.

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
    this.active = 0; // the row that has, or had, the focus
    this.isWanted = false; // whether it gets the focus as soon as it is drawn
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("focusin", (event) => {
      const index = event.target.closest(".row")?.index;
      if (index !== undefined) this.active = index;
    });
    element.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(element);
  }

  reset(total) {
    this.total = total;
    this.isWanted ||= [...this.rows.values()].some((row) => row.contains(document.activeElement));
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
        if (row.contains(document.activeElement)) this.element.focus({ preventScroll: true });
        row.remove();
        this.rows.delete(index);
      }
    }
    for (let page = Math.floor(first / PAGE); page * PAGE < last; page += 1) this.fetch(page);
    for (let index = first; index < last; index += 1) {
      const item = this.item(index);
      let row = this.rows.get(index);
      if (!row) {
        row = make("div", { className: "row", index });
        this.rows.set(index, row);
        this.element.append(row);
      }
      row.style.top = `${top + index * ROW - top * scale}px`;
      if (item && row.item !== item) {
        row.item = item;
        this.isWanted ||= row.contains(document.activeElement);
        row.replaceChildren(...this.render(item, index, row));
        for (const part of row.querySelectorAll("button, input")) part.tabIndex = -1;
      }
      if (item && this.isWanted && index === this.active) {
        this.isWanted = false;
        row.querySelector(".name").focus({ preventScroll: true });
      }
    }
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 1);
    const isInside = this.element !== document.activeElement;
    const steps = { ArrowDown: isInside ? 1 : 0, ArrowUp: isInside ? -1 : 0, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const row = this.rows.get(this.active);
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in steps) this.focus(this.active + steps[event.key]);
    else if (event.key === " ") row?.querySelector("input")?.click();
    else if (event.key === "ArrowRight") row?.querySelector("[aria-expanded=false]")?.click();
    else if (event.key === "ArrowLeft") row?.querySelector("[aria-expanded=true]")?.click();
    else return;
    event.preventDefault();
  }

  focus(index) {
    this.active = Math.max(0, Math.min(this.total - 1, index));
    this.isWanted = true;
    const scale = Math.max(1, (this.total * ROW) / MAX_HEIGHT);
    const [top, height] = [(this.active * ROW) / scale, this.element.clientHeight];
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + ROW > this.element.scrollTop + height) this.element.scrollTop = top + ROW - height;
    this.draw();
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
