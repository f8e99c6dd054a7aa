// The panel of one column: facts, and a histogram or the most frequent values.

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { lines } from "./api.js";
import { byId, bytes, count, counted, make, percent, svg } from "./dom.js";
import { keep, state, table } from "./state.js";

export class ProfilePanel {
  constructor(changed) {
    this.element = byId("profile");
    this.changed = changed;
  }

  close() {
    this.running?.abort();
    this.element.hidden = true;
    state.column = null;
    keep();
    this.changed();
  }

  // Show a column; a profile that is being computed is cancelled.
  async show(column) {
    this.running?.abort();
    const running = (this.running = new AbortController());
    state.column = column.id;
    keep();
    const progress = make("progress", { max: 1, value: 0, "aria-label": "Progress of the statistics" });
    const body = make("div", {});
    const close = make("button", { type: "button", textContent: "×", title: "Close (Esc)", "aria-label": "Close the panel of the column" });
    close.addEventListener("click", () => this.close());
    const title = make("h2", { textContent: column.name ?? "" });
    const type = make("p", { className: "type", textContent: column.type ?? "" });
    this.element.hidden = false;
    this.element.replaceChildren(make("div", { className: "head" }, title, close), type, progress, body);
    this.changed();
    try {
      for await (const line of lines(`column/${column.id}`, { ...table(), where: state.where }, running.signal)) {
        if (line.progress !== undefined) progress.value = line.progress;
        else {
          title.textContent = line.name || "(no name)";
          type.textContent = line.type;
          progress.hidden = true;
          this.fill(body, line);
        }
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      progress.hidden = true;
      body.replaceChildren(make("p", { className: "error", role: "alert", textContent: error.message }));
    }
  }

  fill(body, found) {
    const facts = make("dl");
    const add = (name, value) => facts.append(make("dt", { textContent: name }), make("dd", { textContent: value }));
    add("rows", count(found.rows));
    add("nulls", found.rows ? `${count(found.nulls)} (${percent(found.nulls / found.rows)})` : "0");
    if (found.distinct !== undefined) add("distinct", `${found.distinct_is_exact ? "" : "about "}${count(found.distinct)}`);
    if (found.min !== null && found.min !== undefined) add("min", found.min || "(empty)");
    if (found.max !== null && found.max !== undefined) add("max", found.max || "(empty)");
    if (found.bytes !== undefined) {
      add("stored", bytes(found.bytes));
      add("uncompressed", bytes(found.uncompressed_bytes));
      add("share of the file", percent(found.share));
      add("encoding", found.encodings.map(([name, pages]) => `${name} × ${count(pages)}`).join(", ") || "—");
    }
    if (found.buckets?.length) add(found.buckets.length === 1 ? "bucket" : "buckets", found.buckets.join(", "));
    body.replaceChildren(facts);
    if (found.histogram?.counts.length) this.histogram(body, found);
    if (found.values?.length) this.values(body, found);
  }

  histogram(body, found) {
    const { start, width, counts, is_time: isTime, not_finite: notFinite } = found.histogram;
    const chart = make("div", { role: "img", "aria-label": `Histogram of ${counted(counts.length, "bin")} from ${found.min} to ${found.max}` });
    body.append(make("h3", { textContent: "Histogram" }), chart);
    const style = getComputedStyle(document.documentElement);
    const probe = make("span", {});
    body.append(probe);
    const colour = (name) => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
    const [accent, soft, line] = ["--accent", "--soft", "--line"].map(colour);
    probe.remove();
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: `11px ${style.fontFamily || "sans-serif"}` };
    const short = (values) => values.map((value) => (Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(0).replace("e+", "e") : String(+value.toPrecision(6))));
    const xs = counts.map((_, index) => start + index * width);
    new uPlot(
      {
        width: 290, height: 170, legend: { show: false }, cursor: { show: false },
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        scales: { x: { time: isTime, range: [start, start + counts.length * width] }, y: { range: (_, __, max) => [0, max * 1.05] } },
        axes: [{ ...axis, space: 60, ...(isTime ? {} : { values: (_, ticks) => short(ticks) }) }, { ...axis, size: 46, values: (_, ticks) => short(ticks) }],
        series: [{}, { stroke: accent, fill: accent, width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.92, Infinity], align: 1 }) }],
      },
      [xs, counts],
      chart,
    );
    if (notFinite) body.append(make("p", { className: "type", textContent: `${counted(notFinite, "value")} NaN or infinite` }));
  }

  values(body, found) {
    const most = found.values[0][1];
    const list = make("ul", { className: "bars" });
    for (const [text, number] of found.values) {
      const bar = svg("svg", { viewBox: "0 0 100 5", preserveAspectRatio: "none", "aria-hidden": "true" });
      bar.append(svg("rect", { width: (100 * number) / most, height: 5 }));
      const label = make("span", { className: text ? "label" : "label empty", title: text, textContent: text || "(empty)" });
      list.append(make("li", {}, label, make("span", { className: "count", textContent: count(number) }), bar));
    }
    const title = found.values_are_exact ? "Most frequent values" : "Most frequent values (at least)";
    body.append(make("h3", { textContent: title }), list);
  }
}
