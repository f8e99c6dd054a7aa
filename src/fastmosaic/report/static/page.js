"use strict";
const ROW = 28, BINS = 12;
const $ = (id) => document.getElementById(id);
const make = (tag, text, kind) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};
const number = (value) => value.toLocaleString("en-US");
const plural = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (bytes >= 999.5 && at < units.length - 1) { bytes /= 1000; at++; }
  return at ? `${bytes.toPrecision(3)} ${units[at]}` : `${bytes} B`;
}
async function load() {
  const bytes = Uint8Array.from(atob($("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// ---- prefixes: a node is a range of the sorted names; its parts are made when they are needed

const STEP = /[\W_]*(?:\d+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+)?[\W_]*/uy;
class Names {
  constructor(columns) {
    this.columns = columns;
    this.names = columns.name;
    this.sorted = this.names.map((_, i) => i);
    this.sorted.sort((a, b) => (this.names[a] < this.names[b] ? -1 : this.names[a] > this.names[b] ? 1 : a - b));
    this.sums = new Float64Array(this.sorted.length + 1);
    this.sorted.forEach((i, at) => { this.sums[at + 1] = this.sums[at] + columns.bytes[i]; });
    this.root = { from: 0, to: this.sorted.length, prefix: "" };
  }
  bytes(node) { return this.sums[node.to] - this.sums[node.from]; }
  at(place) { return this.names[this.sorted[place]]; }
  cut(name, start) {
    STEP.lastIndex = start;
    STEP.test(name);
    return Math.max(STEP.lastIndex, start);
  }
  parts(node) {
    if (node.parts) return node.parts;
    if (node.to - node.from < 2) return (node.parts = []);
    // What all have in common is no division: sorted, the first and the last tell.
    const first = this.at(node.from), last = this.at(node.to - 1);
    let start = node.prefix.length, end;
    while ((end = this.cut(first, start)) > start && last.startsWith(first.slice(0, end)) && end < first.length) start = end;
    const parts = [];
    for (let at = node.from; at < node.to;) {
      const name = this.at(at), stop = this.cut(name, start), prefix = name.slice(0, stop);
      let until = at + 1;
      while (until < node.to && this.at(until).startsWith(prefix) && this.cut(this.at(until), start) === stop) until++;
      parts.push({ from: at, to: until, prefix });
      at = until;
    }
    return (node.parts = parts.length === 1 && parts[0].to - parts[0].from > 1 ? this.leaves(node) : parts);
  }
  leaves(node) {
    return Array.from({ length: node.to - node.from }, (_, i) => ({ from: node.from + i, to: node.from + i + 1, prefix: this.at(node.from + i) }));
  }
}

// ---- treemap

function squarified(items, x, y, w, h, place) {
  const total = items.reduce((sum, item) => sum + item.value, 0);
  if (!total) return;
  const scale = (w * h) / total;
  let at = 0;
  while (at < items.length && w > 0 && h > 0) {
    const side = Math.min(w, h);
    let row = [], sum = 0, worst = Infinity;
    for (let i = at; i < items.length; i++) {
      const area = items[i].value * scale, next = sum + area;
      const largest = (row[0] ?? items[i]).value * scale;
      const ratio = Math.max((side * side * largest) / (next * next), (next * next) / (side * side * area));
      if (ratio > worst) break;
      worst = ratio; sum = next; row.push(items[i]);
    }
    const depth = sum / side;
    let offset = 0;
    for (const item of row) {
      const length = (item.value * scale) / depth;
      if (w >= h) place(item, x, y + offset, depth, length);
      else place(item, x + offset, y, length, depth);
      offset += length;
    }
    if (w >= h) { x += depth; w -= depth; } else { y += depth; h -= depth; }
    at += row.length;
  }
}
function treemap(names, path) {
  const node = path[path.length - 1], crumbs = $("crumbs");
  crumbs.replaceChildren();
  path.forEach((one, i) => {
    const button = make("button", one.prefix ? `${one.prefix}*` : "all columns");
    button.onclick = () => treemap(names, path.slice(0, i + 1));
    crumbs.append(button, make("span", ` ${size(names.bytes(one))}${i < path.length - 1 ? " › " : ""}`, "dim"));
  });
  const open = (part) => () => treemap(names, [...path, part]);
  tiles(names.parts(node).map((part) => {
    const count = part.to - part.from, many = count > 1;
    return { value: names.bytes(part), label: many ? `${part.prefix}*` : part.prefix, more: many ? plural(count, "column") : "", open: many ? open(part) : null };
  }), names.bytes(node));
}
function buckets(report) {
  const all = report.buckets.reduce((sum, one) => sum + one[3], 0);
  $("crumbs").replaceChildren(make("span", `${plural(report.numBuckets, "bucket")} ${size(all)}`, "dim"));
  tiles(report.buckets.map(([index, layout, columns, bytes]) => ({ value: bytes, label: `bucket ${index}`, more: columns < 0 ? layout : `${plural(columns, "column")}, ${layout}` })), all, 200);
}
function tiles(items, all, most = 60) {
  const box = $("treemap");
  items = items.filter((one) => one.value > 0).sort((a, b) => b.value - a.value);
  const rest = items.slice(most);
  items = items.slice(0, most);
  if (rest.length) {
    items.push({ value: rest.reduce((sum, one) => sum + one.value, 0), label: plural(rest.length, "other"), more: "" });
    items.sort((a, b) => b.value - a.value);
  }
  box.replaceChildren();
  if (!items.length) { box.append(make("p", "Nothing is stored.", "dim")); return; }
  let colour = 0;
  squarified(items, 0, 0, box.clientWidth, box.clientHeight, (item, x, y, w, h) => {
    const told = `${size(item.value)}, ${((100 * item.value) / all).toFixed(1)} %${item.more ? `, ${item.more}` : ""}`;
    const tile = make("button");
    tile.setAttribute("aria-label", `${item.label}: ${told}`);
    tile.title = `${item.label}\n${told}`;
    Object.assign(tile.style, { left: `${x}px`, top: `${y}px`, width: `${w}px`, height: `${h}px`, background: `var(--t${colour++ % 6})` });
    if (w > 50 && h > 20) tile.append(make("span", item.label));
    if (w > 50 && h > 38) tile.append(make("span", told));
    // Tiles that are hard to hit cannot be pressed; the list of columns has them, too.
    if (item.open && w >= 24 && h >= 24) tile.onclick = item.open;
    else tile.disabled = true;
    box.append(tile);
  });
}

// ---- the list of columns: only the rows on screen are in the page

function histogram(digits) {
  const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
  svg.setAttribute("width", 90); svg.setAttribute("height", 20); svg.setAttribute("aria-hidden", "true");
  for (let i = 0; i < BINS; i++) {
    const height = (parseInt(digits[i], 16) || 0) * (20 / 15), bar = document.createElementNS(ns, "rect");
    for (const [key, value] of Object.entries({ x: i * 7.5, y: 20 - height, width: 6.5, height })) bar.setAttribute(key, value);
    svg.append(bar);
  }
  return svg;
}
class List {
  constructor(report, names) {
    this.report = report; this.names = names; this.open = new Set([names.root]);
    this.body = $("columns").tBodies[0];
    $("scroll").onscroll = () => this.draw();
    $("search").oninput = $("order").onchange = () => { this.fill(); $("scroll").scrollTop = 0; this.draw(); };
    new ResizeObserver(() => this.draw()).observe($("scroll"));
    // The first columns are to be seen at once.
    for (let part = names.root; part; part = names.parts(part).find((one) => one.to - one.from > 1)) this.open.add(part);
    this.fill(); this.draw();
  }
  fill() {
    const { columns } = this.report, text = $("search").value.toLowerCase(), order = $("order").value;
    if (!text && order === "tree") { this.rows = []; this.walk(this.names.root, 0); this.told(columns.name.length); return; }
    let found = order === "name" || order === "tree" ? this.names.sorted : columns.name.map((_, i) => i);
    if (text) found = found.filter((i) => columns.name[i].toLowerCase().includes(text));
    const values = columns[order];
    if (values && order !== "name") found = [...found].sort((a, b) => values[b] - values[a] || a - b);
    this.rows = found.map((column) => ({ column, depth: 0 }));
    this.told(found.length);
  }
  told(count) { $("count").textContent = plural(count, "column"); $("columns").setAttribute("aria-rowcount", this.rows.length + 1); }
  walk(node, depth) {
    for (const part of this.names.parts(node)) {
      if (part.to - part.from === 1) { this.rows.push({ column: this.names.sorted[part.from], depth }); continue; }
      this.rows.push({ part, depth });
      if (this.open.has(part)) this.walk(part, depth + 1);
    }
  }
  draw() {
    const box = $("scroll"), first = Math.max(0, Math.floor(box.scrollTop / ROW) - 5);
    const last = Math.min(this.rows.length, first + Math.ceil(box.clientHeight / ROW) + 10);
    const focus = document.activeElement?.dataset?.row;
    const gap = (count) => {
      const row = make("tr", undefined, "gap"), cell = make("td");
      row.setAttribute("aria-hidden", "true"); cell.colSpan = 9; cell.style.height = `${count * ROW}px`; row.append(cell);
      return row;
    };
    const rows = this.rows.slice(first, last).map((row, i) => this.row(row, first + i));
    this.body.replaceChildren(gap(first), ...rows, gap(this.rows.length - last));
    if (focus !== undefined) this.body.querySelector(`[data-row="${focus}"]`)?.focus({ preventScroll: true });
  }
  row(one, at) {
    const row = make("tr"), { columns } = this.report;
    row.setAttribute("aria-rowindex", at + 2);
    const cell = (text, kind) => { const made = make("td", text, kind); row.append(made); return made; };
    const name = cell();
    name.style.paddingLeft = `${10 + one.depth * 16}px`;
    if (one.part) {
      const is = this.open.has(one.part), button = make("button", `${is ? "▾" : "▸"} ${one.part.prefix}*`);
      button.dataset.row = at;
      button.setAttribute("aria-expanded", is);
      button.onclick = () => { if (!this.open.delete(one.part)) this.open.add(one.part); this.fill(); this.draw(); };
      name.append(button);
      cell(plural(one.part.to - one.part.from, "column"), "dim"); cell(); cell(size(this.names.bytes(one.part)), "n");
      for (let i = 0; i < 5; i++) cell();
      return row;
    }
    const i = one.column;
    name.textContent = name.title = columns.name[i];
    cell(columns.types[columns.type[i]]).title = columns.types[columns.type[i]];
    const digits = columns.histogram?.slice(i * BINS, (i + 1) * BINS) ?? "", drawn = cell();
    if (digits.trim()) drawn.append(histogram(digits));
    cell(size(columns.bytes[i]), "n"); cell(number(columns.nulls[i]), "n");
    const distinct = columns.distinct?.[i] ?? -1;
    cell(distinct < 0 ? "" : (distinct > this.report.exact ? "~" : "") + number(distinct), "n");
    for (const key of ["min", "max"]) { const text = columns[key]?.[i] ?? ""; cell(text).title = text; }
    cell(columns.encodings[columns.encoding[i]], "dim");
    return row;
  }
}

// ---- the rest

function table(box, heads, rows, note) {
  const made = make("table"), head = make("tr"), body = make("tbody");
  for (const [text, kind] of heads) { const cell = make("th", text, kind); cell.scope = "col"; head.append(cell); }
  const top = make("thead"); top.append(head);
  for (const values of rows) {
    const row = make("tr");
    values.forEach((value, i) => row.append(make("td", value, heads[i][1])));
    body.append(row);
  }
  made.append(top, body); box.append(made);
  if (note) box.append(make("p", note, "dim"));
}
const more = (shown, all, noun) => (shown < all ? `The first ${number(shown)} of ${plural(all, noun)}.` : "");
function show(report) {
  const columns = report.columns, [others, otherBytes] = report.rest, count = columns.name.length + others;
  $("title").textContent = document.title = report.title;
  for (const [name, value] of [["rows", number(report.rows)], ["columns", number(count)], ["size", size(report.bytes)], ["files", number(report.numFiles)], ["row groups", number(report.numRowGroups)], ["buckets", number(report.numBuckets)]]) {
    const fact = make("div"); fact.append(make("dt", name), make("dd", value)); $("facts").append(fact);
  }
  const notes = [];
  if (report.keys.length) notes.push(`Partitioned by ${report.keys.join(", ")}.`);
  if (report.readRows < report.rows) notes.push(`Nulls, distinct values, minimum and maximum are those of ${number(report.readRows)} of ${plural(report.rows, "row")}.`);
  if (report.sampleRows < report.rows) notes.push(`Histograms are made from a sample of ${plural(report.sampleRows, "row")}.`);
  if (others) notes.push(`The ${plural(count - others, "largest column")} of ${number(count)} are listed, because the page would be too large; the others have ${size(otherBytes)}.`);
  if (report.leftOut.length) notes.push(`Left out, because the page would be too large: ${report.leftOut.join(", ")}.`);
  $("notes").textContent = notes.join(" ");
  const names = new Names(columns);
  let width = 0;
  const map = () => ($("by").value === "bucket" ? buckets(report) : treemap(names, [names.root]));
  map();
  $("by").onchange = map;
  new ResizeObserver(([entry]) => { if (width && width !== entry.contentRect.width) map(); width = entry.contentRect.width; }).observe($("treemap"));
  new List(report, names);
  table($("groups"), [["file", ""], ["row group", "n"], ["rows", "n"], ["size", "n"]],
    report.rowGroups.map(([file, group, rows, bytes]) => [report.files[file]?.[0] ?? `file ${file}`, number(group), number(rows), size(bytes)]),
    more(report.rowGroups.length, report.numRowGroups, "row group"));
  table($("layout"), [["file", ""], ["rows", "n"], ["size", "n"], ["compression", ""], ["written by", ""]],
    report.files.map(([name, rows, bytes, codec, writer]) => [name, number(rows), size(bytes), codec, writer ?? ""]),
    more(report.files.length, report.numFiles, "file"));
  table($("layout"), [["bucket", "n"], ["layout", ""], ["columns", "n"], ["size in all row groups", "n"]],
    report.buckets.map(([index, layout, columns, bytes]) => [number(index), layout, columns < 0 ? "" : number(columns), size(bytes)]),
    more(report.buckets.length, report.numBuckets, "bucket"));
  document.documentElement.dataset.ready = "yes";
}
load().then(show);
