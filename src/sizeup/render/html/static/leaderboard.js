"use strict";
// The points of one target, precision and batch: a plot and a table.
(() => {
  const { data, make, words, color, plot } = sizeup;
  const rows = data.rows;
  const scatter = document.getElementById("scatter");
  const CERTAIN = 0;
  const CLASSES = [
    { standing: CERTAIN, name: "fits", hue: "blue", symbol: "circle" },
    { standing: 1, name: "may not fit", hue: "orange", symbol: "diamond-open" },
    { standing: 2, name: "incomplete: lower bound", hue: "red", symbol: "triangle-up-open" },
    { standing: 4, name: "too large", hue: "gray", symbol: "x-thin-open" },
  ];
  const SIZES = [
    { key: "params", title: "parameters", write: words.count },
    { key: "macs", title: "MACs", write: words.count },
    { key: "weight_bytes", title: "weights", write: words.size },
    { key: "peak_bytes", title: "peak activation memory", write: words.size },
  ];
  const count = rows.rank.length;
  const text = (column, row) => column.values[column.rows[row]] ?? null;
  const modelOf = (row) => text(rows.model, row);
  const short = (write) => (value) => write(value).replace(/\.0+(?=\D|$)/, "");
  const time = (ms) => words.duration(ms / 1e3);
  const known = (value, write) => (value === null || value === undefined ? "?" : write(value));
  const batchOf = (group) => (group.batch === null ? "original" : String(group.batch));
  const has = (column) => rows[column].values.some((value) => value);

  function distinct(values) {
    return [...new Set(values)];
  }

  const state = { group: data.groups[data.firstGroup], fitting: false, size: SIZES[0] };

  function menu(label, identity, values, chosen, change) {
    const box = make("select", { id: identity, onchange: () => change(box.value) },
      ...values.map((value) => make("option", { value, text: value, selected: value === chosen })));
    return make("label", { for: identity }, label, box);
  }

  /** Select the group that matches best: by target, then precision, then batch. */
  function choose({ target = state.group.target, precision = state.group.precision, batch = batchOf(state.group) }) {
    const fit = (group) => 4 * (group.target === target) + 2 * (group.precision === precision) + (batchOf(group) === batch);
    state.group = data.groups.reduce((best, each) => (fit(each) > fit(best) ? each : best), data.groups[0]);
    show();
  }

  const choices = document.getElementById("choices");
  function buildMenus() {
    const mine = data.groups.filter((each) => each.target === state.group.target);
    const batches = distinct(data.groups.map(batchOf));
    const only = make("input", { type: "checkbox", id: "only-fitting", onchange: () => { state.fitting = only.checked; show(); } });
    only.checked = state.fitting;
    const focused = document.activeElement?.id;
    choices.replaceChildren(
      menu("Target", "target", distinct(data.groups.map((each) => each.target)), state.group.target, (target) => choose({ target })),
      menu("Precision", "precision", distinct(mine.map((each) => each.precision)), state.group.precision, (precision) => choose({ precision })),
      ...(batches.length > 1 ? [menu("Batch", "batch", distinct(mine.map(batchOf)), batchOf(state.group), (batch) => choose({ batch }))] : []),
      menu("x axis", "size", SIZES.map((each) => each.title), state.size.title, (title) => {
        state.size = SIZES.find((each) => each.title === title);
        show();
      }),
      make("label", { for: "only-fitting" }, only, "only points that certainly fit"));
    if (focused) document.getElementById(focused)?.focus();
  }

  function members() {
    const { first, shown } = state.group;
    return Array.from({ length: shown }, (_, index) => first + index)
      .filter((row) => !state.fitting || rows.standing[row] === CERTAIN);
  }

  const drawable = (row) => rows.ms[row] > 0 && rows[state.size.key][row] > 0;

  /** Returns the latency, or its lower bound if only that is known. */
  function latency(row) {
    if (rows.ms[row] !== null) return time(rows.ms[row]);
    return rows.low_ms[row] === null ? "?" : `≥ ${time(rows.low_ms[row])}`;
  }

  function interval(row) {
    if (rows.low_ms[row] === null || rows.high_ms[row] === null) return "interval unknown";
    return `${time(rows.low_ms[row])} to ${time(rows.high_ms[row])}`;
  }

  function hoverText(row) {
    return [
      `<b>${plot.plain(modelOf(row))}</b>${text(rows.shapes, row) ? ` ${plot.plain(text(rows.shapes, row))}` : ""}`,
      `${time(rows.ms[row])} (${interval(row)})`,
      `${known(rows.params[row], words.count)} parameters, ${known(rows.macs[row], words.count)} MACs`,
      `${known(rows.weight_bytes[row], words.size)} weights, ${known(rows.peak_bytes[row], words.size)} peak activation memory`,
      data.standings[rows.standing[row]] + (text(rows.fits_reason, row) ? `: ${plot.plain(text(rows.fits_reason, row)).slice(0, 90)}` : ""),
    ].join("<br>");
  }

  /** Returns the Pareto front of the certain points. */
  function front(shown) {
    const size = rows[state.size.key];
    const sorted = shown.filter((row) => rows.standing[row] === CERTAIN)
      .sort((left, right) => size[left] - size[right] || rows.ms[left] - rows.ms[right]);
    let least = Infinity;
    return sorted.filter((row) => {
      const better = rows.ms[row] < least;
      least = Math.min(least, rows.ms[row]);
      return better;
    });
  }

  function trace({ standing, name, hue, symbol }, shown) {
    const mine = shown.filter((row) => rows.standing[row] === standing);
    const ink = color(hue);
    return {
      type: "scatter", mode: "markers", name: `${name} (${words.grouped(mine.length)})`,
      x: mine.map((row) => rows[state.size.key][row]), y: mine.map((row) => rows.ms[row]),
      error_y: {
        type: "data", symmetric: false, thickness: 0.9, width: 0, color: ink.replace("rgb(", "rgba(").replace(")", ", 0.4)"),
        array: mine.map((row) => (rows.high_ms[row] === null ? 0 : rows.high_ms[row] - rows.ms[row])),
        arrayminus: mine.map((row) => (rows.low_ms[row] === null ? 0 : rows.ms[row] - rows.low_ms[row])),
      },
      text: mine.map(hoverText), customdata: mine, hovertemplate: "%{text}<extra></extra>",
      marker: { color: ink, symbol, size: 8, opacity: 0.85, line: { width: symbol.endsWith("open") ? 1.4 : 0 } },
    };
  }

  function spread(values) {
    const logs = values.filter((each) => each > 0).map(Math.log10);
    if (!logs.length) return [0, 1];
    const [low, high] = logs.reduce(([least, most], each) => [Math.min(least, each), Math.max(most, each)], [Infinity, -Infinity]);
    const margin = Math.max(0.04 * (high - low), 0.08);
    return [low - margin, high + margin];
  }

  function build() {
    const shown = members().filter(drawable);
    const across = spread(shown.map((row) => rows[state.size.key][row]));
    const up = spread(shown.flatMap((row) => [rows.low_ms[row] ?? rows.ms[row], rows.high_ms[row] ?? rows.ms[row]]));
    const best = front(shown);
    const line = {
      type: "scatter", mode: "lines", name: "Pareto front", hoverinfo: "skip",
      x: best.map((row) => rows[state.size.key][row]), y: best.map((row) => rows.ms[row]),
      line: { color: color("ink"), width: 1.2, shape: "hv", dash: "dot" },
    };
    const traces = CLASSES.map((kind) => trace(kind, shown)).filter((each) => each.x.length);
    return {
      traces: best.length > 1 ? [line, ...traces] : traces,
      layout: {
        height: 480, hovermode: "closest",
        xaxis: { type: "log", title: { text: state.size.title }, range: across, ...plot.ticks(...across, short(state.size.write)) },
        yaxis: { type: "log", title: { text: "latency per inference" }, range: up, ...plot.ticks(...up, short(time)) },
      },
    };
  }

  function writeSummary() {
    const { group } = state;
    const mine = members();
    const points = group.points - group.errors;
    const undrawn = mine.filter((row) => !drawable(row)).length;
    const batch = group.batch === null ? "" : `, batch ${group.batch}`;
    const shown = group.shown < points ? `the first ${words.grouped(group.shown)} of ${words.plural(points, "point")}` : words.plural(points, "point");
    document.getElementById("summary").textContent =
      `${group.target} at ${group.precision}${batch}: ${shown}; ${words.grouped(group.fit)} known to fit, `
      + `${words.grouped(group.too_large)} too large, ${words.grouped(group.fit_unknown)} undetermined`
      + (group.errors ? `, ${words.grouped(group.errors)} failed.` : ".");
    document.getElementById("caption").textContent =
      (undrawn ? `${words.plural(undrawn, "point")} without a latency or a size ${undrawn === 1 ? "is" : "are"} not drawn. ` : "")
      + (undrawn < mine.length ? "Click a point to show it in the table." : "");
    scatter.hidden = undrawn === mine.length; // axes without points would have made-up numbers
  }

  const figure = (title, key, write, width = 6.5, hint = null, more = {}) => ({
    title, number: true, width, hint, ...more, value: (row) => rows[key][row], cell: (row) => known(rows[key][row], write),
  });
  const standing = (row) => data.standings[rows.standing[row]];
  const because = (row) => text(rows.fits_reason, row) ?? text(rows.latency_missing, row) ?? "";
  const columns = [
    { title: "rank", number: true, width: 4.2, value: (row) => -rows.rank[row], cell: (row) => words.grouped(rows.rank[row]) },
    { title: "model", width: 15, early: true, narrow: 9, value: modelOf, cell: modelOf, header: true },
    ...(has("shapes") ? [{ title: "shapes", width: 8, value: (row) => text(rows.shapes, row), cell: (row) => text(rows.shapes, row) || "original" }] : []),
    {
      title: "latency", number: true, width: 6.2, early: true, narrow: 5.2, hint: "≥: only a lower bound is known",
      value: (row) => rows.ms[row] ?? rows.low_ms[row], cell: latency,
    },
    { title: "interval", width: 10, value: (row) => rows.high_ms[row], cell: (row) => (rows.ms[row] === null ? "?" : interval(row)), hint: "90 % prediction interval" },
    { title: "fits", width: 6.8, early: true, narrow: 5.8, value: (row) => -rows.standing[row], cell: standing, hint: "Certain: known to fit, every operator counted" },
    figure("params", "params", words.count, 5.6),
    figure("MACs", "macs", words.count, 5.6),
    figure("weights", "weight_bytes", words.size, 6),
    figure("peak", "peak_bytes", words.size, 6, "Peak activation memory"),
    ...(rows.energy_mj.some((value) => value !== null) ? [figure("energy", "energy_mj", (value) => (value < 1000 ? `${+value.toPrecision(3)} mJ` : `${+(value / 1000).toPrecision(3)} J`), 6)] : []),
    { title: "basis", width: 6.5, value: (row) => text(rows.basis, row), cell: (row) => text(rows.basis, row) ?? "?", hint: "Calibrated: fitted to measurements; roofline: from the data sheet" },
    { title: "reason", width: 18, value: because, cell: because, hint: "Why it does not fit, or what is unknown" },
  ];
  const table = sizeup.table(document.getElementById("table"), {
    label: "Models", noun: "point", columns, rows: count,
    find: (row) => `${modelOf(row)} ${text(rows.shapes, row) ?? ""} ${standing(row)} ${text(rows.basis, row) ?? ""}`,
    marks: (row) => (row === state.marked ? "maker" : null),
  });
  document.querySelector("#table input[type=search]").placeholder = "Filter by model";

  let drawing = null;
  function show() {
    buildMenus();
    writeSummary();
    const mine = new Set(members());
    state.marked = null;
    table.keep((row) => mine.has(row));
    if (drawing) drawing.redraw();
  }

  if (data.groups.length) {
    show();
    drawing = plot(scatter, build);
    scatter.on("plotly_click", ({ points: [point] }) => {
      if (point.customdata === undefined) return;
      state.marked = point.customdata;
      table.show(point.customdata);
    });
  }
})();
