"use strict";
// Points by two quantities of choice, one color and symbol per precision.
(() => {
  const { data, make, words, color, plot } = sizeup;
  const HUES = ["blue", "orange", "green", "red", "pink", "sky", "gray"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "star", "hexagon", "cross"];
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const joules = (value) => {
    for (const [scale, unit] of [[1, "J"], [1e-3, "mJ"], [1e-6, "µJ"]]) {
      if (value >= 0.9995 * scale) return `${+(value / scale).toPrecision(3)} ${unit}`;
    }
    return `${+(value * 1e9).toPrecision(3)} nJ`;
  };
  const QUANTITIES = [
    { key: "share", title: data.share, write: percent },
    { key: "seconds", title: "latency", write: words.duration, log: true },
    { key: "joules", title: "energy", write: joules, log: true },
    { key: "bytes", title: "memory", write: words.size, log: true },
  ].filter(({ key, log }) => data.points.some((each) => each[key] !== null && (!log || each[key] > 0)));
  const by = (key) => QUANTITIES.find((each) => each.key === key);
  const state = {
    x: by("seconds") ?? by("joules") ?? by("bytes") ?? QUANTITIES[0],
    y: by("share") ?? by("bytes") ?? QUANTITIES[0],
  };
  const precisions = [...new Set(data.points.map((each) => each.precision))].sort();
  const hasRejected = data.points.some((each) => each.accepted === false);

  const amount = (point, { key, write }) => (point[key] === null ? "?" : write(point[key]));
  function hover(point) {
    const interval = point.low === null || point.high === null ? "" : ` (90 % interval ${words.duration(point.low)} to ${words.duration(point.high)})`;
    return [
      `<b>${plot.plain(point.name)}</b>`,
      ...QUANTITIES.map((each) => `${each.title} ${amount(point, each)}${each.key === "seconds" ? interval : ""}`),
    ].join("<br>");
  }

  function error(points, quantity) {
    if (quantity.key !== "seconds") return {};
    return {
      type: "data", symmetric: false, thickness: 1, width: 3,
      array: points.map((each) => (each.high === null ? 0 : each.high - each.seconds)),
      arrayminus: points.map((each) => (each.low === null ? 0 : each.seconds - each.low)),
    };
  }

  const shown = (each) => [state.x, state.y].every(({ key, log }) => each[key] !== null && (!log || each[key] > 0));

  function trace(precision, place) {
    const mine = data.points.filter((each) => each.precision === precision && shown(each));
    const symbol = SYMBOLS[place % SYMBOLS.length];
    const ink = color(HUES[place % HUES.length]);
    return {
      type: "scatter", mode: "markers", name: precision,
      x: mine.map((each) => each[state.x.key]), y: mine.map((each) => each[state.y.key]),
      error_x: { ...error(mine, state.x), color: ink }, error_y: { ...error(mine, state.y), color: ink },
      text: mine.map(hover), hovertemplate: "%{text}<extra></extra>",
      marker: {
        color: ink, size: 11, line: { width: 1.6, color: ink },
        symbol: mine.map((each) => (each.accepted === false ? `${symbol}-open` : symbol)),
      },
    };
  }

  function axis(quantity) {
    const { key, title, write, log } = quantity;
    const values = data.points.flatMap((each) => (key === "seconds" ? [each.low ?? each.seconds, each.seconds, each.high ?? each.seconds] : [each[key]]))
      .filter((each) => each !== null && (!log || each > 0));
    if (!log) {
      const low = Math.max(0, Math.min(...values) - 0.05);
      return { title: { text: title }, range: [low, Math.min(1.009, Math.max(...values) + 0.05)], tickformat: ".0%" };
    }
    const range = [Math.log10(Math.min(...values)) - 0.1, Math.log10(Math.max(...values)) + 0.1];
    return { type: "log", title: { text: title }, range, ...plot.ticks(...range, write) };
  }

  const build = () => ({
    traces: precisions.map(trace).filter((each) => each.x.length),
    layout: { height: 440, hovermode: "closest", showlegend: true, xaxis: axis(state.x), yaxis: axis(state.y) },
  });

  function menu(label, side) {
    const box = make("select", { id: side, onchange: () => { state[side] = by(box.value); writeCaption(); drawing.redraw(); } },
      ...QUANTITIES.map(({ key, title }) => make("option", { value: key, text: title, selected: state[side].key === key })));
    return make("label", { for: side }, label, box);
  }

  function writeCaption() {
    const missing = data.points.filter((each) => !shown(each)).length;
    document.getElementById("caption").textContent = "Bars are the 90 % prediction intervals of the latency."
      + (hasRejected ? " Hollow: a budget is exceeded." : "")
      + (missing ? ` Not drawn: ${words.plural(missing, "point")} without a known ${state.x.title} or ${state.y.title}.` : "");
  }

  document.getElementById("choices").append(menu("x axis", "x"), menu("y axis", "y"));
  writeCaption();
  const drawing = plot(document.getElementById("scatter"), build);
})();
