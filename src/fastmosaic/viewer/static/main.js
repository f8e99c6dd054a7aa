// The page: connects the panels, the filter, the keyboard and the URL.

import { get, lines } from "./api.js";
import { ColumnPanel } from "./columns.js";
import { byId, bytes, count, counted, make } from "./dom.js";
import { Grid } from "./grid.js";
import { ProfilePanel } from "./profile.js";
import { keep, reset, restore, selectColumn, shown, state, table } from "./state.js";
import { Treemap } from "./treemap.js";

let meta;
let numMatches = null; // of the filter
let numShown = null; // of these rows, at most as many as the server keeps
let filtering;

const tell = (text) => { byId("status").textContent = text; };

function showMessage(title, detail = "", fields = null) {
  const message = byId("message");
  message.hidden = false;
  message.className = fields ? "error" : "";
  message.setAttribute("role", fields ? "alert" : "status");
  message.replaceChildren(make("strong", { textContent: title }));
  if (detail) message.append(make("span", { textContent: detail }));
  if (fields) {
    const list = make("dl");
    for (const [name, value] of Object.entries(fields)) {
      if (name !== "message") list.append(make("dt", { textContent: name.replace("_", " ") }), make("dd", { textContent: value }));
    }
    message.append(list);
  }
}

function fail(error) {
  if (error.name === "AbortError") return;
  showMessage(error.message, "", error.fields ?? { kind: error.name });
}

const grid = new Grid({ openColumn, openValue, fail, tell });
const profile = new ProfilePanel(() => { grid.style(); columns.list.draw(); });
const columns = new ColumnPanel(selectionChanged, goToColumn);
const treemap = new Treemap(openColumn, fail);

function openColumn(column) {
  profile.show(column);
}

async function goToColumn(column) {
  document.body.classList.remove("columns-open");
  if (state.view === "cells" && !(await isAt(column))) {
    let found = await located(column);
    if (found.at === null) {
      selectColumn(column.id, true);
      keep();
      await selectionChanged();
      found = await located(column);
    }
    await grid.goTo(found.at, grid.cursor.y);
  }
  openColumn(column);
}

// Go to the place that is known of a column; answer whether the column is still there.
async function isAt(column) {
  if (column.at === null || column.at === undefined) return false;
  await grid.goTo(column.at, grid.cursor.y);
  return grid.heads.get(column.at)?.id === column.id;
}

async function located(column) {
  const found = await get("columns", { ...shown(), from: column.id, to: column.id + 1 });
  return found.items[0];
}

async function openValue(column, row) {
  const found = await get("cell", { ...table(), column: column.id, row });
  byId("value-title").textContent = `${found.name}, row ${count(row)}`;
  byId("value-text").textContent = found.text ?? "null";
  byId("value-note").textContent = found.is_cut ? "The value is longer; this is its beginning." : "";
  byId("value").showModal();
}

// ---- what is shown

async function showCells(place = null) {
  const numColumns = state.select ? (await get("columns", { ...shown(), to: 1 })).shown : meta.table.columns;
  const numRows = state.where ? numShown : meta.table.rows;
  byId("message").hidden = true;
  await grid.show(numRows, numColumns);
  if (place) await grid.goTo(Math.min(place.x, Math.max(0, numColumns - 1)), Math.min(place.y, Math.max(0, numRows - 1)));
  if (!meta.table.columns) showMessage("The table has no columns", counted(meta.table.rows, "row"));
  else if (!numColumns) showMessage("No columns are selected", "Choose some in the list of columns.");
  else if (!numRows) showMessage(state.where ? "No rows match the filter" : "The table has no rows");
  facts();
}

function facts() {
  const { rows, columns: width, bytes: size, format, files } = meta.table;
  const matching = numMatches === null ? counted(rows, "row") : `${count(numMatches)} of ${counted(rows, "row")}`;
  byId("facts").textContent = `${matching} × ${counted(width, "column")} · ${bytes(size)} · ${format}${files > 1 ? ` · ${counted(files, "file")}` : ""}`;
}

async function showView(place = null) {
  const isCells = state.view === "cells";
  byId("show-cells").setAttribute("aria-pressed", isCells);
  byId("show-sizes").setAttribute("aria-pressed", !isCells);
  byId("sizes").hidden = isCells;
  byId("message").hidden = true;
  if (isCells) await showCells(place);
  else {
    facts();
    await treemap.show();
    columns.show(true); // sizes are known now
  }
}

function changeView(view) {
  state.view = view;
  keep();
  return showView().catch(fail);
}

async function selectionChanged() {
  columns.show(true);
  if (state.view === "cells") await showCells().catch(fail);
}

// ---- filter

async function applyFilter(where) {
  filtering?.abort();
  const running = (filtering = new AbortController());
  const message = byId("where-message");
  const progress = byId("where-progress");
  byId("where").removeAttribute("aria-invalid");
  message.className = "";
  message.textContent = "";
  if (!where) {
    numMatches = null;
    state.where = "";
    return true;
  }
  progress.removeAttribute("value");
  progress.hidden = false;
  try {
    for await (const line of lines("filter", { ...table(), where }, running.signal)) {
      progress.value = line.progress;
      message.textContent = `${counted(line.found, "row")} found`;
      if (line.done) numMatches = line.found;
      if (line.done) numShown = line.shown;
    }
    state.where = where;
    const first = numShown < numMatches ? `; the first ${count(numShown)} are shown` : "";
    message.textContent = `${count(numMatches)} of ${counted(meta.table.rows, "row")}${first}`;
    return true;
  } catch (error) {
    if (error.name === "AbortError") return false;
    byId("where").setAttribute("aria-invalid", "true");
    message.className = "error";
    message.textContent = error.message;
    return false;
  } finally {
    if (filtering === running) progress.hidden = true;
  }
}

byId("filter").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!(await applyFilter(byId("where").value.trim()))) return;
  state.y = 0;
  keep();
  if (state.view === "cells") await showCells({ x: state.x, y: 0 }).catch(fail);
  if (state.column !== null) profile.show({ id: state.column });
});

// ---- sources and versions

function showSources() {
  const buttons = meta.sources.map((source, index) => {
    const button = make("button", { type: "button", title: source.name, textContent: source.name.replace(/\/+$/, "").split("/").pop() || source.name });
    button.setAttribute("aria-pressed", index === state.source);
    button.addEventListener("click", () => {
      reset("version", "q", "select", "where", "column", "x", "y", "at");
      state.source = index;
      keep();
      open();
    });
    return button;
  });
  byId("tabs").replaceChildren(...buttons);
  buttons[state.source]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  document.title = `${meta.sources[state.source]?.name ?? ""} – fastmosaic`;
}

async function showVersions() {
  const label = byId("version-label");
  label.hidden = !meta.table?.version;
  if (label.hidden) return;
  const found = await get("versions", { source: state.source });
  byId("version").replaceChildren(
    ...found.map((one) => make("option", { value: one.version, textContent: `${one.version} · ${one.operation} · ${one.time.slice(0, 16).replace("T", " ")}` })),
  );
  byId("version").value = meta.table.version;
}

byId("version").addEventListener("change", () => {
  state.version = Number(byId("version").value);
  reset("select", "column", "at");
  keep();
  open();
});

async function open() {
  document.body.setAttribute("aria-busy", "true");
  profile.running?.abort();
  profile.element.hidden = true;
  numMatches = null;
  const place = { x: state.x, y: state.y };
  byId("where").value = state.where;
  byId("facts").textContent = "";
  if (!meta) showMessage("Opening…");
  try {
    meta = await get("meta", table());
    showSources();
    if (meta.error) {
      byId("version-label").hidden = true;
      columns.list.pages = new Map();
      columns.list.reset(0);
      showMessage(meta.error.message, "", meta.error);
      return;
    }
    byId("show-sizes").disabled = !meta.table.has_sizes;
    for (const option of byId("sort").options) {
      if (option.value === "nulls-") option.disabled = !meta.table.has_nulls;
      if (option.value === "size-") option.disabled = !meta.table.has_sizes;
    }
    byId("by").options[1].disabled = meta.table.format !== "mosaic";
    if (state.where && !(await applyFilter(state.where))) state.where = "";
    await Promise.all([columns.show(), showView(place), showVersions()]);
    if (state.column !== null && state.column < meta.table.columns) profile.show({ id: state.column });
  } catch (error) {
    fail(error);
  } finally {
    document.body.setAttribute("aria-busy", "false");
  }
}

// ---- dialogs

byId("value-copy").hidden = !navigator.clipboard;
byId("value-copy").addEventListener("click", () => navigator.clipboard.writeText(byId("value-text").textContent).then(() => tell("Copied the value")));

let suggesting;

const search = async (parameters) => (await get("columns", { ...shown(), ...parameters })).items;

// Columns for a name or number: the one of this name, the one at this place, and those that contain it.
async function suggest() {
  const text = byId("goto-name").value.trim();
  const asked = (suggesting = {});
  const isNumber = /^\d{1,15}$/.test(text) && Number(text) < meta.table.columns;
  const found = !text ? [] : await Promise.all([
    search({ q: text, mode: "exact", to: 1 }),
    isNumber ? search({ from: text, to: Number(text) + 1 }) : [],
    search({ q: text, to: 8 }),
  ]);
  if (asked !== suggesting) return; // more was typed
  const items = new Map(found.flat().map((item) => [item.id, item]));
  const buttons = [...items.values()].slice(0, 8).map((item) => {
    const button = make("button", { type: "button", textContent: item.name });
    button.addEventListener("click", () => {
      byId("goto").close();
      goToColumn(item).catch(fail);
    });
    return button;
  });
  const none = text && !buttons.length ? [make("p", { textContent: "No column has this name." })] : [];
  byId("goto-list").replaceChildren(...buttons, ...none);
}

byId("goto-name").addEventListener("input", () => suggest().catch(fail));
byId("goto").querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const name = byId("goto-name").value.trim();
    const [same] = name ? await search({ q: name, mode: "exact", to: 1 }) : [];
    if (same) {
      byId("goto").close();
      await goToColumn(same);
    } else {
      await suggest();
      byId("goto-list").querySelector("button")?.click();
    }
  } catch (error) {
    byId("goto").close();
    fail(error);
  }
});

// ---- keyboard, theme, small screens

const ACTIONS = {
  "/": () => {
    document.body.classList.add("columns-open");
    byId("search").focus();
    byId("search").select();
  },
  f: () => byId("where").focus(),
  g: () => {
    byId("goto-name").value = "";
    byId("goto-list").replaceChildren();
    byId("goto").showModal();
  },
  i: () => {
    const column = grid.heads.get(grid.cursor.x);
    if (column) openColumn(column);
  },
  "?": () => byId("help").showModal(),
};

addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    const isTyping = event.target.matches("input, select");
    if (!isTyping && !profile.element.hidden) profile.close();
    document.body.classList.remove("columns-open");
    grid.element.focus();
    return;
  }
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input:not([type=checkbox]), select")) return;
  const action = ACTIONS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});

byId("show-cells").addEventListener("click", () => changeView("cells"));
byId("show-sizes").addEventListener("click", () => changeView("sizes"));
byId("help-button").addEventListener("click", ACTIONS["?"]);
byId("toggle-columns").addEventListener("click", () => document.body.classList.toggle("columns-open"));
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("fastmosaic-theme", root.dataset.theme);
  if (state.column !== null) profile.show({ id: state.column }); // a canvas has the colours of its time
});
const theme = localStorage.getItem("fastmosaic-theme");
if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;

addEventListener("hashchange", () => {
  restore();
  open();
});
restore();
open();
