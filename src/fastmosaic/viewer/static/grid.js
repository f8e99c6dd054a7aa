// The grid of cells: virtual in both directions, with a cursor and a selection.

import "./vendor/regular-table/regular-table.js";
import { get } from "./api.js";
import { byId, count, make } from "./dom.js";
import { keep, shown, state } from "./state.js";

const MAX_COPIED = 200_000; // cells
const ROW = 22; // the height of a row, in pixels
const MIN_ROW = 10; // rows that seem to be lower than this share a pixel with others
const HEADS = 2; // rows of the heading

export class Grid {
  constructor({ openColumn, openValue, fail, tell }) {
    this.element = byId("grid");
    this.openColumn = openColumn;
    this.tell = tell;
    this.openValue = openValue;
    this.numRows = 0;
    this.numColumns = 0;
    this.cursor = { x: 0, y: 0 };
    this.anchor = null;
    this.heads = new Map(); // columns by their place in the selection
    this.element.setDataListener(async (x0, y0, x1, y1) => {
      try {
        return await this.data(x0, y0, x1, y1);
      } catch (error) {
        fail(error);
        return { num_rows: 0, num_columns: 0, data: [], column_headers: [], row_headers: [] };
      }
    });
    this.element.addStyleListener(() => this.style());
    this.element.addEventListener("mousedown", (event) => this.press(event));
    this.element.addEventListener("dblclick", (event) => this.whole(event));
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("copy", (event) => this.copy(event));
    this.element.addEventListener("scroll", () => this.scrolled());
  }

  async data(x0, y0, x1, y1) {
    const found = { num_rows: this.numRows, num_columns: this.numColumns, data: [], metadata: [], column_headers: [], row_headers: [] };
    if (x1 <= x0 || y1 <= y0 || !this.numRows || !this.numColumns) return found;
    // A jump draws twice: once to measure the widths of columns.
    const asked = { ...shown(), where: state.where, rows: `${y0}-${y1 - 1}`, columns: `${x0}-${x1 - 1}` };
    const key = JSON.stringify(asked);
    if (this.last?.key !== key) this.last = { key, answer: await get("cells", asked) };
    const { answer } = this.last;
    answer.columns.forEach((column, index) => this.heads.set(x0 + index, column));
    if (this.heads.size > 5000) this.heads = new Map([...this.heads].slice(-1000));
    found.data = answer.cells.map((cells) => cells.map((cell) => (cell === null ? "null" : Array.isArray(cell) ? `${cell[0]}…` : cell)));
    found.metadata = answer.cells.map((cells) => cells.map((cell) => (cell === null ? "null" : Array.isArray(cell) ? "cut" : "")));
    found.column_headers = answer.columns.map((column) => [column.name, column.type]);
    found.row_headers = answer.rows.map((row) => [count(row)]);
    this.first = { x: x0, y: y0 };
    return found;
  }

  // Show other rows or columns; the cursor and the position stay where they are if they exist.
  async show(numRows, numColumns) {
    this.numRows = numRows;
    this.numColumns = numColumns;
    this.cursor = { x: Math.min(this.cursor.x, Math.max(0, numColumns - 1)), y: Math.min(this.cursor.y, Math.max(0, numRows - 1)) };
    this.anchor = null;
    this.heads.clear();
    this.element._resetAutoSize?.();
    await this.element.draw({ invalid_viewport: true });
  }

  async goTo(x, y) {
    this.cursor = { x, y };
    this.anchor = null;
    await this.reveal(true);
  }

  async reveal(atStart = false) {
    const { x, y } = this.cursor;
    const seen = this.seen();
    if (!atStart && seen && x >= seen.x0 && x < seen.x1 && y >= seen.y0 && y < seen.y1) {
      this.style();
      return;
    }
    const left = !atStart && seen && x >= seen.x0 ? Math.max(0, x < seen.x1 ? seen.x0 : x - (seen.x1 - seen.x0) + 1) : x;
    const top = !atStart && seen && y >= seen.y0 ? Math.max(0, y < seen.y1 ? seen.y0 : y - (seen.y1 - seen.y0) + 1) : y;
    // Widths are measured when columns are drawn, and with them the place of the last ones moves.
    for (let attempt = 0; attempt < 5; attempt += 1) {
      await this.scrollTo(left, top);
      const now = this.seen();
      if (!now || (x >= now.x0 && x < now.x1)) break;
    }
    this.style();
  }

  // The height of the area is limited: of very many rows, a step of a pixel may be several.
  async scrollTo(x, y) {
    const { element } = this;
    const range = element.scrollHeight - element.clientHeight;
    const share = element.scrollHeight / (this.numRows + HEADS);
    const height = share < MIN_ROW ? (element.querySelector("tbody td")?.offsetHeight ?? ROW) : share;
    const hidden = this.numRows + HEADS - element.clientHeight / height; // rows, if the last ones are visible
    const done = element.scrollToCell(x, 0);
    element.scrollTop = hidden > 0 ? Math.ceil((range * y) / hidden) : 0;
    await done;
  }

  // The cells that are completely visible.
  seen() {
    const outer = this.element.getBoundingClientRect();
    let found = null;
    for (const cell of this.element.querySelectorAll("tbody td")) {
      const box = cell.getBoundingClientRect();
      if (box.right > outer.right + 1 || box.bottom > outer.bottom + 1) continue;
      const { x, y } = this.element.getMeta(cell) ?? {};
      if (x === undefined) continue;
      found ??= { x0: x, y0: y, x1: x + 1, y1: y + 1 };
      found.x1 = Math.max(found.x1, x + 1);
      found.y1 = Math.max(found.y1, y + 1);
    }
    return found;
  }

  get selection() {
    const other = this.anchor ?? this.cursor;
    const [x0, x1] = [this.cursor.x, other.x].sort((a, b) => a - b);
    const [y0, y1] = [this.cursor.y, other.y].sort((a, b) => a - b);
    return { x0, x1, y0, y1 };
  }

  style() {
    const { x0, x1, y0, y1 } = this.selection;
    for (const cell of this.element.querySelectorAll("tbody td")) {
      const meta = this.element.getMeta(cell);
      if (!meta) continue;
      const { x, y } = meta;
      const kind = this.heads.get(x)?.kind ?? "";
      const isInside = this.anchor !== null && x >= x0 && x <= x1 && y >= y0 && y <= y1;
      const isCursor = x === this.cursor.x && y === this.cursor.y;
      const name = [kind, meta.user ?? "", isInside ? "selected" : "", isCursor ? "cursor" : ""].join(" ").trim();
      if (cell.className !== name) cell.className = name;
    }
    for (const cell of this.element.querySelectorAll("thead th")) {
      // The corner above the row numbers heads nothing.
      if (cell.textContent.trim()) cell.removeAttribute("role");
      else cell.setAttribute("role", "cell");
      const { x } = this.element.getMeta(cell) ?? {};
      const head = x === undefined ? undefined : this.heads.get(x);
      cell.classList.toggle("number", head?.kind === "number" || head?.kind === "time");
      cell.classList.toggle("current", head !== undefined && head.id === state.column);
      if (head) cell.title = `${head.name}\n${head.type}`;
    }
  }

  press(event) {
    if (event.button !== 0 || event.target.classList.contains("rt-column-resize")) return;
    const cell = event.target.closest("td, th");
    const meta = cell && this.element.getMeta(cell);
    if (!meta) return;
    if (cell.tagName === "TH") {
      const head = meta.x === undefined || meta.type === "row_header" ? undefined : this.heads.get(meta.x);
      if (head) this.openColumn(head);
      return;
    }
    if (event.shiftKey) this.anchor ??= { ...this.cursor };
    else this.anchor = null;
    this.cursor = { x: meta.x, y: meta.y };
    if (event.shiftKey) event.preventDefault();
    this.style();
    this.place();
    if (!event.shiftKey && meta.user === "cut") this.whole(event);
    const move = (moved) => {
      const over = document.elementFromPoint(moved.clientX, moved.clientY)?.closest("td");
      const at = over && this.element.contains(over) && this.element.getMeta(over);
      if (!at || (at.x === this.cursor.x && at.y === this.cursor.y)) return;
      this.anchor ??= { ...this.cursor };
      this.cursor = { x: at.x, y: at.y };
      getSelection().removeAllRanges();
      this.style();
    };
    addEventListener("mousemove", move);
    addEventListener("mouseup", () => removeEventListener("mousemove", move), { once: true });
  }

  whole(event) {
    const cell = event.target.closest("td");
    const meta = cell && this.element.getMeta(cell);
    if (meta?.x !== undefined) this.showValue(meta.x, meta.y);
  }

  async showValue(x, y) {
    const answer = await get("cells", { ...shown(), where: state.where, rows: `${y}-${y}`, columns: `${x}-${x}` });
    if (answer.rows.length && answer.columns.length) this.openValue(answer.columns[0], answer.rows[0]);
  }

  async key(event) {
    const page = Math.max(1, this.element.querySelectorAll("tbody tr").length - 2);
    const steps = {
      ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
      PageUp: [0, -page], PageDown: [0, page], Home: [-Infinity, event.ctrlKey ? -Infinity : 0], End: [Infinity, event.ctrlKey ? Infinity : 0],
    };
    if (event.key === "Enter" && this.numRows && this.numColumns) {
      event.preventDefault();
      await this.showValue(this.cursor.x, this.cursor.y);
      return;
    }
    const step = steps[event.key];
    if (!step || event.altKey || event.metaKey || !this.numRows || !this.numColumns) return;
    event.preventDefault();
    if (event.shiftKey) this.anchor ??= { ...this.cursor };
    else this.anchor = null;
    const limited = (value, size) => Math.max(0, Math.min(size - 1, value));
    this.cursor = { x: limited(this.cursor.x + step[0], this.numColumns), y: limited(this.cursor.y + step[1], this.numRows) };
    this.place();
    await this.reveal();
  }

  place() {
    const name = this.heads.get(this.cursor.x)?.name;
    if (name !== undefined) this.tell(`${name}, place ${count(this.cursor.y)}`);
  }

  scrolled() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const seen = this.seen();
      if (!seen) return;
      state.x = seen.x0;
      state.y = seen.y0;
      keep();
    }, 200);
  }

  copy(event) {
    if (getSelection().toString()) return; // text of a heading, for example
    event.preventDefault();
    const { x0, x1, y0, y1 } = this.selection;
    const width = x1 - x0 + 1;
    const size = width * (y1 - y0 + 1);
    if (size > MAX_COPIED) {
      this.tell(`Too much to copy: ${count(size)} cells (at most ${count(MAX_COPIED)})`);
      return;
    }
    if (!navigator.clipboard) {
      this.tell("Cannot copy: browsers allow it on https and localhost only");
      return;
    }
    const asked = { ...shown(), where: state.where, rows: `${y0}-${y1}`, columns: `${x0}-${x1}` };
    const text = get("tsv", asked).then((answer) => new Blob([answer.text], { type: "text/plain" }));
    // The clipboard accepts text that arrives later if it is promised now, but does not say why it failed.
    text.catch((error) => this.tell(`Cannot copy: ${error.message}`));
    navigator.clipboard.write([new ClipboardItem({ "text/plain": text })]).then(
      () => this.tell(`Copied ${count(size)} cell${size === 1 ? "" : "s"}`),
      (error) => text.then(() => this.tell(`Cannot copy: ${error.message}`), () => {}),
    );
  }
}
