// The panel of columns: search, order, tree and selection.

import { get } from "./api.js";
import { byId, bytes, count, counted, make } from "./dom.js";
import { VirtualList } from "./list.js";
import { keep, selectColumn, selectMatching, shown, state } from "./state.js";

const TREE_PAGE = 500;

export class ColumnPanel {
  // `changed` is called when the selection has changed, `open` when a column is chosen.
  constructor(changed, open) {
    this.changed = changed;
    this.open = open;
    this.nodes = []; // of the tree, those that are unfolded
    this.list = new VirtualList(byId("column-list"), (from, to) => this.load(from, to), (...args) => this.row(...args));
    let timer;
    byId("search").addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.update("q", byId("search").value), 120);
    });
    byId("search").addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown") return;
      event.preventDefault();
      this.list.focus(0);
    });
    byId("mode").addEventListener("change", () => this.update("mode", byId("mode").value));
    byId("sort").addEventListener("change", () => this.update("sort", byId("sort").value));
    byId("select-only").addEventListener("click", () => this.select("="));
    byId("select-all").addEventListener("click", () => this.select("+"));
    byId("select-none").addEventListener("click", () => this.select("-"));
  }

  get isTree() {
    return state.sort === "tree" && !state.q;
  }

  update(name, value) {
    state[name] = value;
    keep();
    this.show();
  }

  select(sign) {
    selectMatching(sign, state.q, state.mode);
    keep();
    this.changed();
  }

  async ask(from, to) {
    const sort = state.sort === "tree" ? "position" : state.sort;
    return get("columns", {
      ...shown(), q: state.q, mode: state.mode, sort: sort.replace("-", ""), descending: sort.endsWith("-") ? 1 : "", from, to,
    });
  }

  async load(from, to) {
    if (this.isTree) return this.nodes.slice(from, to);
    try {
      return (await this.ask(from, to)).items;
    } catch (error) {
      this.fail(error);
      return undefined;
    }
  }

  fail(error) {
    byId("columns-status").className = "error";
    byId("columns-status").textContent = error.message;
  }

  // Show the list from its beginning, or with `again` where it is.
  async show(again = false) {
    byId("search").value = state.q;
    byId("mode").value = state.mode;
    byId("sort").value = state.sort;
    byId("select-only").hidden = !state.q;
    byId("select-all").textContent = state.q ? "Add" : "Select all";
    byId("select-all").title = state.q ? "Show the columns that match, too" : "Show all columns";
    byId("select-none").textContent = state.q ? "Remove" : "None";
    byId("select-none").title = state.q ? "Hide the columns that match" : "Hide all columns";
    const asked = (this.asked = {});
    try {
      const first = await this.ask(0, 100);
      if (this.isTree) this.nodes = await this.unfolded("", 0, again ? new Set(this.nodes.filter((node) => node.isOpen).map((node) => node.prefix)) : new Set());
      if (asked !== this.asked) return; // another search has begun
      byId("columns-status").className = "";
      const matches = state.q ? `${counted(first.total, "match").replace("matchs", "matches")} · ` : "";
      byId("columns-status").textContent = `${matches}${count(first.shown)} shown`;
      if (!again) byId("column-list").scrollTop = 0;
      this.list.pages = new Map();
      this.list.reset(this.isTree ? this.nodes.length : first.total);
    } catch (error) {
      if (asked !== this.asked) return;
      this.fail(error);
      this.list.pages = new Map();
      this.list.reset(0);
    }
  }

  async unfolded(prefix, depth, open, from = 0) {
    const found = await get("tree", { ...shown(), prefix, from, to: from + TREE_PAGE });
    const nodes = [];
    for (const item of found.items) {
      const node = { ...item, depth, isOpen: open.has(item.prefix) };
      nodes.push(node);
      if (node.isOpen) nodes.push(...(await this.unfolded(node.prefix, depth + 1, open)));
    }
    const rest = found.total - from - found.items.length;
    if (rest > 0) nodes.push({ more: rest, parent: prefix, from: from + found.items.length, depth });
    return nodes;
  }

  async fold(node, index) {
    if (node.more) {
      this.nodes.splice(index, 1, ...(await this.unfolded(node.parent, node.depth, new Set(), node.from)));
    } else if (node.isOpen) {
      let end = index + 1;
      while (end < this.nodes.length && this.nodes[end].depth > node.depth) end += 1;
      this.nodes.splice(index, end - index, { ...node, isOpen: false });
    } else {
      const inside = await this.unfolded(node.prefix, node.depth + 1, new Set());
      this.nodes.splice(index, 1, { ...node, isOpen: true }, ...inside);
    }
    this.list.pages = new Map();
    this.list.reset(this.nodes.length);
  }

  row(item, index, row) {
    const indent = (item.depth ?? 0) * 14;
    row.style.paddingLeft = `${8 + indent}px`;
    row.classList.toggle("current", item.id !== undefined && item.id === state.column);
    if (item.more) {
      const more = make("button", { className: "name", type: "button", textContent: `… ${count(item.more)} more` });
      more.addEventListener("click", () => this.fold(item, index));
      return [more];
    }
    return item.prefix === undefined ? this.column(item) : this.branch(item, index);
  }

  column(item) {
    const box = make("input", { type: "checkbox", checked: item.at !== null, "aria-label": `Show ${item.name}` });
    box.addEventListener("change", () => {
      selectColumn(item.id, box.checked);
      keep();
      this.changed();
    });
    const name = make("button", { className: "name", type: "button", title: item.name, textContent: item.name || "(no name)" });
    name.addEventListener("click", () => this.open(item));
    const parts = [box, name];
    if (item.nulls !== null && state.sort === "nulls-") parts.push(make("span", { className: "number", textContent: `${count(item.nulls)} null` }));
    else if (item.size !== null) parts.push(make("span", { className: "number", textContent: bytes(item.size) }));
    parts.push(make("span", { className: "type", title: item.type, textContent: item.type }));
    return parts;
  }

  branch(item, index) {
    const twist = make("button", {
      className: "twist", type: "button", "aria-expanded": String(item.isOpen), "aria-label": `Columns that start with ${item.name}`,
    });
    twist.addEventListener("click", () => this.fold(item, index));
    const box = make("input", {
      type: "checkbox", checked: item.shown > 0, indeterminate: item.shown > 0 && item.shown < item.columns, "aria-label": `Show all ${item.name}`,
    });
    box.addEventListener("change", () => {
      selectMatching(box.checked ? "+" : "-", item.prefix, "prefix");
      keep();
      this.changed();
    });
    const name = make("button", { className: "name", type: "button", textContent: `${item.name}…` });
    name.addEventListener("click", () => this.fold(item, index));
    const size = item.size === null ? [] : [make("span", { className: "number", textContent: bytes(item.size) })];
    return [twist, box, name, ...size, make("span", { className: "type", textContent: count(item.columns) })];
  }
}
