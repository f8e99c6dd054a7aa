// The state of the page. It is kept in the hash of the URL, so that a link restores the view.

const DEFAULTS = {
  source: 0, version: 0, q: "", mode: "substring", sort: "position", select: "", where: "", column: null,
  x: 0, y: 0, view: "cells", by: "prefix", at: "",
};
const NUMBERS = new Set(["source", "version", "column", "x", "y"]);

export const state = { ...DEFAULTS };

export function restore() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of Object.entries(DEFAULTS)) {
    const text = given.get(name);
    if (text === null) state[name] = value;
    else if (!NUMBERS.has(name)) state[name] = text;
    else state[name] = /^\d{1,15}$/.test(text) ? Number(text) : value;
  }
}

export function keep() {
  const changed = Object.entries(state).filter(([name, value]) => value !== DEFAULTS[name]);
  const hash = new URLSearchParams(changed).toString();
  if (hash !== location.hash.slice(1)) history.replaceState(null, "", `#${hash}`);
}

export function reset(...names) {
  for (const name of names) state[name] = DEFAULTS[name];
}

// What every request about the table has.
export const table = () => ({ source: state.source, version: state.version || undefined });
export const shown = () => ({ ...table(), select: state.select });

// ---- selections: see ColumnIndex.selected on the server

const LETTERS = { substring: "s", glob: "g", regex: "r", prefix: "p" };

// Add ("+"), remove ("-") or show only ("=") the columns that match.
export function selectMatching(sign, pattern, mode) {
  if (!pattern) {
    state.select = sign === "+" ? "" : "none";
    return;
  }
  if (sign === "=") state.select = "none";
  addStep(`${sign === "-" ? "-" : "+"}${LETTERS[mode]}:${encodeURIComponent(pattern)}`);
}

export function selectColumn(id, isShown) {
  addStep(`${isShown ? "+" : "-"}i:${id}`);
}

function addStep(step) {
  const steps = state.select ? state.select.split(";") : [];
  const last = steps.at(-1);
  // Single columns, one after another, are one step.
  if (step[1] === "i" && last?.slice(0, 3) === step.slice(0, 3)) steps[steps.length - 1] = `${last},${step.slice(3)}`;
  else if (last !== step) steps.push(step);
  state.select = steps.join(";");
}
