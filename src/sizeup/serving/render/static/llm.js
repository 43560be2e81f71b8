"use strict";
// Points of the grid: sliders select one, and plots show those with its lengths. Nothing is computed here.
(() => {
  const { data, make, words, color, plot } = sizeup;
  const grid = data.grid;
  if (!grid) return;
  const HUES = ["blue", "orange", "green", "red", "pink", "sky"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "star", "hexagon"];
  const CAUSE_HUES = { weights: "blue", cache: "green", links: "red", kernels: "orange", overhead: "gray", prefill: "pink" };
  const isBound = grid.basis !== "calibrated";
  const [least, most] = isBound ? ["at least ", "at most "] : ["", ""];
  const byId = (id) => document.getElementById(id);
  const first = (values, value) => Math.max(values.indexOf(value), 0);
  const state = {
    layout: 0,
    input: first(grid.input_tokens, data.input_tokens),
    output: first(grid.output_tokens, data.output_tokens),
    requests: first(grid.requests, data.concurrency[0].sequences),
  };

  /** The place in the lists of a layout. */
  const at = (requests) => (state.input * grid.output_tokens.length + state.output) * grid.requests.length + requests;
  const lengths = () => [grid.input_tokens[state.input], grid.output_tokens[state.output]];

  function interval(durations, place) {
    if (!durations.low || !durations.high) return "no interval";
    return `90 % interval ${words.duration(durations.low[place])} - ${words.duration(durations.high[place])}`;
  }

  const money = (amount) => least + words.money(amount, data.price_per_device_hour.currency);

  function numbers(layout, requests) {
    const place = at(requests);
    const asked = grid.requests[requests];
    const [input, output] = lengths();
    if (layout.running[place] === null) {
      const limit = data.model.max_context;
      const isLong = limit && input + output > limit;
      return [["fits", "no", isLong ? `${words.grouped(input + output)} tokens exceed the model's context` : "not even one request of these lengths"]];
    }
    const waiting = asked - layout.running[place];
    return [
      ["TPOT", least + words.duration(layout.tpot_seconds.expected[place]), interval(layout.tpot_seconds, place)],
      ["TTFT", least + words.duration(layout.ttft_seconds.expected[place]), interval(layout.ttft_seconds, place)],
      ["tokens/s per user", most + words.rate(layout.user_tokens_per_second[place]), ""],
      ["tokens/s per GPU", most + words.rate(layout.gpu_tokens_per_second[place]), ""],
      ...(layout.cost ? [["per 1 M output tokens", money(layout.cost.per_million_output_tokens[place]), `${money(layout.cost.per_million_tokens[place])} per 1 M tokens`]] : []),
      ["running", words.grouped(layout.running[place]), waiting > 0 ? `of ${words.grouped(asked)} requests; the others wait` : "all requests"],
      ["limited by", layout.limiter[place], least + words.duration(layout.causes_seconds[layout.limiter[place]][place]) + " per token"],
      ["rank", layout.rank[place] ?? "none", rankDetail(layout, place)],
    ];
  }

  function rankDetail(layout, place) {
    if (layout.rank[place] === null) return "requests wait";
    if (layout.rank[place] === "tied" && !layout.tpot_seconds.low) return "without an interval, within a factor of 1.28 of the best";
    return "among all layouts with these lengths";
  }

  function writeNumbers() {
    byId("point").replaceChildren(...numbers(grid.layouts[state.layout], state.requests).map(([title, value, detail]) => make("div", {},
      make("dt", { text: title }), make("dd", { class: "value", text: value }), make("dd", { class: "detail", text: detail }))));
  }

  function changed() {
    writeNumbers();
    drawings.forEach((each) => each.redraw());
  }

  function slider(name, title, values) {
    const write = () => words.grouped(values[state[name]]);
    const box = make("input", {
      type: "range", id: name, min: 0, max: values.length - 1, step: 1, value: state[name],
      "aria-valuetext": write(), disabled: values.length < 2,
      oninput: () => {
        state[name] = Number(box.value);
        shown.textContent = write();
        box.setAttribute("aria-valuetext", write());
        changed();
      },
    });
    const shown = make("output", { for: name, text: write() });
    return make("div", {}, make("label", { for: name, text: title }), shown, box);
  }

  function menu() {
    const box = make("select", { id: "layout", onchange: () => { state.layout = box.selectedIndex; changed(); } },
      ...grid.layouts.map((each, place) => make("option", { text: each.layout, selected: place === state.layout })));
    return make("div", {}, make("label", { for: "layout", text: "layout" }), box);
  }

  function hover(layout, requests) {
    return [
      `<b>${plot.plain(layout.layout)}</b>`, words.plural(grid.requests[requests], "request"),
      ...numbers(layout, requests).slice(0, 4).map(([title, value, detail]) => `${title} ${value}${detail ? ` (${detail})` : ""}`),
      layout.rank[at(requests)], ...(layout.equal_layouts.length ? [`same times: ${plot.plain(layout.equal_layouts.join("; "))}`] : []),
    ].join("<br>");
  }

  const x = (layout, requests) => layout.user_tokens_per_second[at(requests)];
  const y = (layout, requests) => layout.gpu_tokens_per_second[at(requests)];
  /** The numbers of requests that all run. */
  const running = (layout) => grid.requests.map((_, place) => place).filter((place) => layout.rank[at(place)] !== null);

  function line(layout, place) {
    const mine = running(layout);
    const ink = color(HUES[place % HUES.length]);
    const rank = (each) => layout.rank[at(each)];
    const isSelected = place === state.layout;
    return {
      type: "scatter", mode: isSelected ? "lines+markers+text" : "lines+markers", name: plot.plain(layout.layout),
      x: mine.map((each) => x(layout, each)), y: mine.map((each) => y(layout, each)),
      text: mine.map((each) => (isSelected ? words.grouped(grid.requests[each]) : "")), textposition: "bottom left",
      hovertext: mine.map((each) => hover(layout, each)), hovertemplate: "%{hovertext}<extra></extra>",
      line: { color: ink, width: isSelected ? 2.5 : 1.2 },
      marker: {
        color: ink, line: { width: 1.4, color: ink },
        size: mine.map((each) => (rank(each) === "frontier" ? 13 : 7)),
        symbol: mine.map((each) => SYMBOLS[place % SYMBOLS.length] + (rank(each) === "dominated" ? "-open" : "")),
      },
    };
  }

  /** The frontier of all layouts; points of those that have no line are marked. */
  function frontier() {
    const points = grid.frontiers[state.input * grid.output_tokens.length + state.output];
    const isOther = (point) => !grid.layouts.some((each) => each.layout === point.layout);
    return {
      type: "scatter", mode: "lines+markers", name: "frontier", x: points.map((each) => each.user_tokens_per_second),
      y: points.map((each) => each.gpu_tokens_per_second), line: { color: color("line"), width: 9 },
      hovertext: points.map((each) => [
        `<b>${plot.plain(each.layout)}</b>`, words.plural(each.requests, "request"), `TPOT ${least}${words.duration(each.tpot_seconds)}`,
        `TTFT ${least}${words.duration(each.ttft_seconds)}`, "frontier",
      ].join("<br>")),
      hovertemplate: "%{hovertext}<extra></extra>",
      marker: { color: color("ink"), symbol: "x-thin", line: { width: 2, color: color("ink") }, size: points.map((each) => (isOther(each) ? 9 : 0)) },
    };
  }

  function selected() {
    const layout = grid.layouts[state.layout];
    const isShown = layout.running[at(state.requests)] !== null;
    return {
      type: "scatter", mode: "markers", name: "selected", hoverinfo: "skip",
      x: isShown ? [x(layout, state.requests)] : [], y: isShown ? [y(layout, state.requests)] : [],
      marker: { symbol: "circle-open", size: 24, color: color("ink"), line: { width: 2.5, color: color("ink") } },
    };
  }

  /** A logarithmic axis; `share` of its span is left free before the first value. */
  function axis(values, title, share = 0) {
    const logs = values.filter((each) => each > 0).map(Math.log10);
    const [low, high] = [Math.min(...logs), Math.max(...logs)];
    const range = logs.length ? [low - Math.max(0.12, share * (high - low)), high + 0.12] : [0, 1];
    return { type: "log", title: { text: most + title }, range, ...plot.ticks(...range, words.rate) };
  }

  function buildFrontier() {
    const traces = [frontier(), ...grid.layouts.map(line), selected()];
    const label = 50 / Math.max(byId("frontier").clientWidth - 150, 100); // of a point, to its left
    return {
      traces,
      layout: {
        height: 480, hovermode: "closest", showlegend: true,
        xaxis: axis(traces.flatMap((each) => each.x), "tokens/s per user", label), yaxis: axis(traces.flatMap((each) => each.y), "tokens/s per GPU"),
      },
    };
  }

  function buildCauses() {
    const layout = grid.layouts[state.layout];
    const places = grid.requests.map((_, place) => place).filter((place) => layout.running[at(place)] !== null);
    const traces = Object.entries(layout.causes_seconds).map(([name, seconds]) => ({
      type: "bar", name, x: places.map((each) => words.grouped(grid.requests[each])), y: places.map((each) => seconds[at(each)]),
      text: places.map((each) => `${name} ${least}${words.duration(seconds[at(each)])} of ${words.duration(layout.tpot_seconds.expected[at(each)])}`),
      textposition: "none", hovertemplate: "%{text}<extra></extra>",
      marker: { color: color(CAUSE_HUES[name] ?? "sky"), line: { color: color("ink"), width: places.map((each) => (each === state.requests ? 1 : 0)) } },
    }));
    return {
      traces,
      layout: {
        height: 400, barmode: "stack", showlegend: true, legend: { orientation: "h", y: -0.26, x: 0, traceorder: "normal" }, xaxis: { type: "category", title: { text: "concurrent requests" } },
        yaxis: { title: { text: `${least}TPOT` }, tickformat: "~s", ticksuffix: "s", rangemode: "tozero" },
      },
    };
  }

  byId("sliders").addEventListener("submit", (event) => event.preventDefault());
  byId("sliders").append(
    menu(), slider("requests", "concurrent requests", grid.requests),
    slider("input", "input tokens", grid.input_tokens), slider("output", "output tokens", grid.output_tokens),
  );
  writeNumbers();
  const drawings = [plot(byId("frontier"), buildFrontier), plot(byId("causes"), buildCauses)];
})();
