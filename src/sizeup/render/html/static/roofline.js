"use strict";
// The roofline: one point per kernel with MACs, under the peaks of the device.
(() => {
  const { data, color, words, plot, model } = sizeup;
  const element = document.getElementById("roofline-plot");
  if (!element || !data.roofline) return;
  const roofline = data.roofline;
  const HUES = ["blue", "orange", "green", "red", "sky", "pink"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "star"];
  const FLOPS_PER_MAC = 2;
  const rate = (macs) => `${words.count(macs)}MAC/s`.replace(/(\d)MAC/, "$1 MAC");

  const short = (value) => words.count(value).replace(/\.0+(?=\D|$)/, "");

  const points = roofline.op.map((op, index) => ({
    op, kind: model.kind(op), macs: roofline.macs[index], bytes: roofline.bytes[index], seconds: roofline.op_seconds[index],
    type: roofline.type.values[roofline.type.rows[index]],
    x: (FLOPS_PER_MAC * roofline.macs[index]) / roofline.bytes[index], y: roofline.macs[index] / roofline.op_seconds[index],
  }));

  /** The op kinds that take the most time have distinct colors and symbols. */
  function groups() {
    const seconds = new Map();
    for (const each of points) seconds.set(each.kind, (seconds.get(each.kind) ?? 0) + each.seconds);
    const kinds = [...seconds.keys()].sort((left, right) => seconds.get(right) - seconds.get(left)).slice(0, HUES.length);
    const named = kinds.map((kind, index) => [kind, HUES[index], SYMBOLS[index], points.filter((each) => each.kind === kind)]);
    const rest = points.filter((each) => !kinds.includes(each.kind));
    return rest.length ? [...named, ["other", "gray", "x", rest]] : named;
  }

  function hoverText(each) {
    return [
      `<b>${plot.plain(model.name(each.op))}</b>`,
      `operator ${each.op}, ${plot.plain(each.kind)}, ${each.type}`,
      `${words.duration(each.seconds)}, ${words.share(each.seconds, roofline.seconds)} of the latency`,
      `${words.count(each.macs)} MACs, ${words.size(each.bytes)} moved`,
      `${+each.x.toPrecision(3)} FLOP/B, ${rate(each.y)}`,
    ].join("<br>");
  }

  const fastest = Math.max(0, ...roofline.memories.filter((each) => each.role !== "cache").map((each) => each.bytes_per_second));

  function extent() {
    const ridges = roofline.roofs.map((roof) => (FLOPS_PER_MAC * roof.macs_per_second) / fastest).filter(Number.isFinite);
    const xs = [...points.map((each) => each.x), ...ridges];
    return [Math.min(...xs) / 3, Math.max(...xs) * 10]; // room for labels on the right

  }

  /** The range of the vertical axis in log10: all points and roofs. */
  function heights() {
    const roofs = roofline.roofs.map((each) => each.macs_per_second);
    const low = Math.min(...points.map((each) => each.y), ...roofs) / 3;
    return [Math.log10(low), Math.log10(1.7 * Math.max(...points.map((each) => each.y), ...roofs))];
  }

  /** The lines of the roofs and their labels. */
  function roofs([left, right], rates) {
    const isNarrow = element.clientWidth < 600;
    const apart = (16 * (rates[1] - rates[0])) / 340; // least distance of labels, in log10
    const labels = [];
    const lines = [];
    const line = (x, y, strong) => lines.push({
      type: "scatter", mode: "lines", x, y, hoverinfo: "skip", showlegend: false,
      line: { color: color(strong ? "ink" : "gray"), width: strong ? 1.8 : 1, dash: strong ? "solid" : "dot" },
    });
    const label = (x, y, text, options = {}) => labels.push({
      x: Math.log10(x), y: Math.log10(y), text: plot.plain(text), showarrow: false, xanchor: "right", yanchor: "bottom",
      font: { size: 11.5, color: color("soft") }, borderpad: 2, ...options,
    });
    const levels = [];
    for (const roof of [...roofline.roofs].sort((a, b) => b.used - a.used)) {
      const ridge = fastest ? (FLOPS_PER_MAC * roof.macs_per_second) / fastest : left;
      line([Math.max(left, ridge), right], [roof.macs_per_second, roof.macs_per_second], roof.used);
      const near = levels.find((each) => Math.abs(Math.log10(each.at / roof.macs_per_second)) < apart);
      const level = near ?? { at: roof.macs_per_second, types: new Map() };
      if (!near) levels.push(level);
      const amount = rate(roof.macs_per_second);
      level.types.set(amount, [...(level.types.get(amount) ?? []), roof.type]);
    }
    for (const { at, types } of levels) {
      const texts = [...types].map(([amount, names]) => (isNarrow ? names.join(", ") : `${names.join(", ")}: ${amount}`));
      label(right, at, texts.join("; "));
    }
    const top = Math.max(...roofline.roofs.map((each) => each.macs_per_second), ...points.map((each) => each.y));
    const uppermost = Math.max(...roofline.memories.map((each) => each.bytes_per_second));
    const decade = Math.max(element.clientWidth - 100, 100) / Math.log10(right / left); // in pixels
    for (const memory of roofline.memories) {
      const slope = memory.bytes_per_second / FLOPS_PER_MAC; // MACs per second at one FLOP per byte
      const end = Math.min(right, top / slope);
      line([left, end], [left * slope, end * slope], memory.bytes_per_second === fastest);
      const text = `${memory.name}: ${words.size(memory.bytes_per_second)}/s`;
      if (memory.bytes_per_second === uppermost) {
        // The label of the uppermost line is above it, with no points above.
        const at = Math.min(end, left * 10 ** ((7 * text.length + 12) / decade));
        label(at, at * slope, text);
      } else {
        label(left, left * slope, text, { xanchor: "left", yanchor: "top" });
      }
    }
    return { lines, labels };
  }

  function build() {
    const range = extent();
    const rates = heights();
    const { lines, labels } = roofs(range, rates);
    const most = Math.max(...points.map((each) => each.seconds), 0);
    const traces = groups().map(([name, hue, symbol, members]) => ({
      type: "scatter", mode: "markers", name: plot.plain(name), x: members.map((each) => each.x), y: members.map((each) => each.y),
      text: members.map(hoverText), customdata: members.map((each) => each.op), hovertemplate: "%{text}<extra></extra>",
      marker: {
        color: color(hue), symbol, opacity: 0.62, line: { color: color("paper"), width: 0.8 },
        size: members.map((each) => 6 + 26 * Math.sqrt(each.seconds / most)),
      },
    }));
    return {
      traces: [...lines, ...traces],
      layout: {
        height: 460, annotations: labels, hovermode: "closest",
        xaxis: { type: "log", title: { text: "FLOP/B: FLOPs per byte moved, 2 per MAC" }, range: range.map(Math.log10), ...plot.ticks(...range.map(Math.log10), String) },
        yaxis: { type: "log", title: { text: "MACs per second" }, range: rates, ...plot.ticks(...rates, short) },
      },
    };
  }

  plot(element, build);
  element.on("plotly_click", ({ points: [point] }) => {
    if (point.customdata !== undefined) sizeup.showOperator(point.customdata);
  });
})();
