// Where the bytes are: areas in proportion to compressed sizes.

import { get } from "./api.js";
import { byId, bytes, count, make, svg } from "./dom.js";
import { keep, state, table } from "./state.js";

// Divide a rectangle among sizes, which descend, so that parts are close to squares.
export function squarified(sizes, x, y, width, height) {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const scale = total ? (width * height) / total : 0;
  const found = [];
  let rest = sizes.map((size) => size * scale);
  const worst = (row, side) => {
    const sum = row.reduce((a, b) => a + b, 0);
    return Math.max((side * side * row[0]) / (sum * sum), (sum * sum) / (side * side * row.at(-1)));
  };
  while (rest.length && rest[0] > 0) {
    const side = Math.min(width, height);
    let length = 1;
    while (length < rest.length && rest[length] > 0 && worst(rest.slice(0, length + 1), side) <= worst(rest.slice(0, length), side)) length += 1;
    const row = rest.slice(0, length);
    rest = rest.slice(length);
    const thick = row.reduce((a, b) => a + b, 0) / side;
    let at = 0;
    for (const area of row) {
      const long = area / thick;
      found.push(width >= height ? [x, y + at, thick, long] : [x + at, y, long, thick]);
      at += long;
    }
    if (width >= height) [x, width] = [x + thick, width - thick];
    else [y, height] = [y + thick, height - thick];
  }
  return found;
}

export class Treemap {
  constructor(openColumn, fail) {
    this.element = byId("treemap");
    this.openColumn = openColumn;
    this.fail = fail;
    byId("by").addEventListener("change", () => {
      state.by = byId("by").value;
      this.zoom("");
    });
    new ResizeObserver(() => this.found && this.draw()).observe(this.element);
  }

  zoom(at) {
    state.at = at;
    keep();
    return this.show();
  }

  async show() {
    byId("by").value = state.by;
    const asked = (this.asked = {});
    if (!this.found) this.element.replaceChildren(make("p", { className: "note", role: "status", textContent: "Measuring columns…" }));
    try {
      const found = await get("sizes", { ...table(), by: state.by, at: state.at });
      if (asked !== this.asked) return;
      this.found = found;
      this.draw();
    } catch (error) {
      if (asked === this.asked) this.fail(error);
    }
  }

  crumbs() {
    const all = make("button", { type: "button", textContent: "All columns" });
    all.addEventListener("click", () => this.zoom(""));
    const here = state.at ? [`› ${state.by === "bucket" ? `bucket ${state.at}` : state.at}`] : [];
    byId("crumbs").replaceChildren(all, ...here, ` ${bytes(this.found.bytes)}`);
  }

  draw() {
    this.crumbs();
    const { clientWidth: width, clientHeight: height } = this.element;
    const areas = [...this.found.areas];
    if (this.found.rest) areas.push({ name: `${count(this.found.rest.groups)} others`, bytes: this.found.rest.bytes });
    areas.sort((one, other) => other.bytes - one.bytes); // together, the small ones may be the largest
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Sizes of columns" });
    squarified(areas.map((area) => area.bytes), 0, 0, width, height).forEach(([x, y, w, h], index) => {
      picture.append(this.area(areas[index], index, x, y, w, h));
    });
    this.element.replaceChildren(picture);
  }

  area(area, index, x, y, width, height) {
    const inside = area.columns ? `, ${count(area.columns)} columns` : "";
    const label = `${area.name}: ${bytes(area.bytes)}${inside}`;
    const group = svg("g", {}, svg("rect", { x, y, width, height, rx: 3, class: `t${index % 8}` }), svg("title", {}, label));
    if (width > 30 && height > 18) {
      const letters = Math.floor((width - 10) / 6.4);
      // Of a bucket, the number says it all, and of a name, what follows the prefix that is shown above.
      let whole = area.name;
      if (state.by === "bucket" && area.at !== undefined && whole.length > letters) whole = area.at;
      else if (state.by === "prefix" && whole.length > state.at.length && whole.startsWith(state.at)) whole = whole.slice(state.at.length);
      const name = whole.length > letters ? `${whole.slice(0, Math.max(1, letters - 1))}…` : whole;
      group.append(svg("text", { x: x + 6, y: y + 14 }, name));
      const detail = `${bytes(area.bytes)}${inside}`;
      const short = detail.length > letters ? bytes(area.bytes) : detail;
      if (height > 34 && short.length <= letters + 1) group.append(svg("text", { x: x + 6, y: y + 28, class: "bytes" }, short));
    }
    const act = area.at !== undefined ? () => this.zoom(area.at) : area.id !== undefined ? () => this.openColumn(area) : null;
    if (act) {
      group.setAttribute("role", "button");
      group.setAttribute("tabindex", "0");
      group.setAttribute("aria-label", label);
      group.addEventListener("click", act);
      group.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          act();
        }
      });
    }
    return group;
  }
}
