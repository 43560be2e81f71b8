"use strict";
// Memory over time and the map of the arena, which share one axis of operators; a tensor can be followed.
(() => {
  const { data, colour, make, words, plot, model } = sizeup;
  const place = document.getElementById("memory-plot");
  const found = data.memory;
  if (!place || !found) return;
  const steps = data.ops.live.length;
  const many = found.size.length > 800;
  const members = found.size.map((_, box) => found.tensors.items.slice(found.tensors.first[box], found.tensors.first[box + 1]));
  const boxOf = new Map();
  members.forEach((tensors, box) => tensors.forEach((each) => boxOf.set(each, box)));

  // An axis in whole units reads better than one in powers of ten.
  const most = Math.max(found.height, found.peak_bytes, 1);
  const power = Math.min(4, Math.max(0, Math.floor(Math.log(most) / Math.log(1024))));
  const unit = 1024 ** power;
  const unitName = ["bytes", "KiB", "MiB", "GiB", "TiB"][power];

  function title(box) {
    const [first] = members[box];
    return first === undefined ? `what operator ${found.first[box]} takes for itself` : model.tensorName(first);
  }

  function told(box) {
    const [first, ...views] = members[box];
    const lines = [`<b>${plot.plain(title(box))}</b>`];
    if (first !== undefined) lines.push(`${model.tensorShape(first)} ${plot.plain(model.tensorType(first))}${views.length ? `, and ${words.plural(views.length, "view")} of it` : ""}`);
    lines.push(`${words.size(found.size[box])} (${words.grouped(found.size[box])} B) at ${words.grouped(found.offset[box])}`);
    lines.push(found.first[box] === found.last[box] ? `during operator ${found.first[box]}` : `from operator ${found.first[box]} to ${found.last[box]}`);
    return lines.join("<br>");
  }

  function hue(box, isFollowed) {
    if (isFollowed) return "red";
    const [first] = members[box];
    if (first === undefined) return "grey";
    if (members[box].some(model.isGiven)) return "orange";
    if (members[box].some(model.isResult)) return "green";
    return box % 2 ? "blue" : "sky";
  }

  function boxes() {
    const following = new Set(model.state.tensors.map((each) => boxOf.get(each)));
    const hues = new Map(["red", "grey", "orange", "green", "blue", "sky"].map((each) => [each, colour(each)]));
    const all = found.size.map((_, box) => box);
    return {
      type: "bar", name: "arena", xaxis: "x", yaxis: "y2", showlegend: false,
      x: all.map((box) => (found.first[box] + found.last[box]) / 2),
      width: all.map((box) => found.last[box] - found.first[box] + 1),
      base: all.map((box) => found.offset[box] / unit), y: all.map((box) => found.size[box] / unit),
      text: all.map(told), textposition: "none", hovertemplate: "%{text}<extra></extra>", customdata: all,
      marker: {
        color: all.map((box) => hues.get(hue(box, following.has(box)))),
        opacity: all.map((box) => (!model.state.tensors.length || following.has(box) ? 0.85 : 0.3)),
        line: { color: colour("paper"), width: many ? 0 : 0.8 },
      },
    };
  }

  /** The operators that make and read what is followed, as lines through both pictures. */
  function marks() {
    const line = (op, dash) => ({
      type: "line", xref: "x", yref: "paper", x0: op, x1: op, y0: 0, y1: 1, line: { color: colour("red"), width: 1.2, dash },
    });
    return [...[...model.state.makers].map((op) => line(op, "solid")), ...[...model.state.readers].slice(0, 200).map((op) => line(op, "dot"))];
  }

  function build() {
    // Half a step more on either side, so that the first and the last operator are as wide as the others.
    const ops = [0, ...data.ops.live.keys(), steps - 1];
    const live = {
      type: "scatter", mode: "lines", name: "in use", x: ops.map((op, place) => (place === 0 ? -0.5 : place === ops.length - 1 ? steps - 0.5 : op)),
      y: ops.map((op) => data.ops.live[op] / unit),
      line: { shape: "hvh", color: colour("blue"), width: 1.5 }, fill: "tozeroy", fillcolor: colour("mark-reader"), showlegend: false,
      text: ops.map((op) => `<b>${words.size(data.ops.live[op])} in use</b><br>operator ${op}, ${plot.plain(model.kind(op))}<br>${plot.plain(model.name(op))}`),
      hovertemplate: "%{text}<extra></extra>",
    };
    const top = {
      type: "scatter", mode: "markers+text", x: [found.peak_op], y: [found.peak_bytes / unit], showlegend: false, hoverinfo: "skip",
      marker: { color: colour("red"), size: 8, symbol: "diamond" }, text: [`\u00a0\u00a0peak ${words.size(found.peak_bytes)}\u00a0\u00a0`],
      textposition: found.peak_op < steps / 2 ? "top right" : "top left", textfont: { color: colour("ink") }, cliponaxis: false,
    };
    return {
      traces: [live, top, boxes()],
      layout: {
        height: 560, bargap: 0, barmode: "overlay", hovermode: "closest", shapes: marks(), dragmode: "zoom",
        xaxis: { title: { text: "operator, in the order in which they run" }, range: [-0.6, steps - 0.4], anchor: "y2", hoverformat: "d" },
        yaxis: { title: { text: `in use, ${unitName}` }, domain: [0.56, 1], rangemode: "tozero", range: [0, (1.18 * found.peak_bytes) / unit] },
        yaxis2: { title: { text: `address, ${unitName}` }, domain: [0, 0.48], range: [0, (1.02 * found.height) / unit] },
      },
    };
  }

  const drawing = plot(place, build);
  place.on("plotly_click", ({ points: [point] }) => {
    if (point.data.name === "arena" && members[point.customdata].length) model.follow(members[point.customdata]);
  });

  // The same for whoever has no mouse: a tensor by its name.
  const panel = document.getElementById("followed");
  const names = make("datalist", { id: "tensor-names" });
  const choice = make("input", {
    type: "search", class: "grow", list: "tensor-names", id: "follow", placeholder: "Name of a tensor", autocomplete: "off",
    oninput: () => {
      const wanted = choice.value.toLowerCase();
      const near = [...boxOf.keys()].filter((each) => model.tensorName(each).toLowerCase().includes(wanted)).slice(0, 30);
      names.replaceChildren(...near.map((each) => make("option", { value: model.tensorName(each) })));
    },
    onchange: () => {
      const hit = [...boxOf.keys()].find((each) => model.tensorName(each) === choice.value);
      if (hit !== undefined) model.follow(members[boxOf.get(hit)]);
    },
  });
  const stop = make("button", { type: "button", hidden: true, onclick: () => model.follow([]), text: "Stop following" });
  document.getElementById("follow-controls").append(make("label", { for: "follow", text: "Follow a tensor" }), choice, names, stop);

  function link(op) {
    return make("button", { type: "button", class: "op", onclick: () => sizeup.showOperator(op), text: `#${op} ${model.kind(op)}` });
  }

  function row(label, ops, none) {
    const some = ops.slice(0, 12).map(link);
    const more = ops.length > 12 ? [` and ${words.grouped(ops.length - 12)} more`] : [];
    return [make("dt", { text: label }), make("dd", { class: "ops" }, ...(ops.length ? [...some, ...more] : [none]))];
  }

  model.onFollow(({ tensors, makers, readers }) => {
    drawing.redraw();
    stop.hidden = !tensors.length;
    if (!tensors.length) {
      choice.value = "";
      panel.replaceChildren();
      return;
    }
    const box = boxOf.get(tensors[0]);
    const size = box === undefined ? [] : [
      make("dt", { text: "in memory" }),
      make("dd", { text: `${words.size(found.size[box])}, from operator ${found.first[box]} to ${found.last[box]}` }),
    ];
    panel.replaceChildren(
      make("h3", { text: model.tensorName(tensors[0]) }),
      make("p", { class: "soft", text: `${model.tensorShape(tensors[0])} ${model.tensorType(tensors[0])}${tensors.length > 1 ? `, with ${words.plural(tensors.length - 1, "view")}` : ""}` }),
      make("dl", { class: "facts" }, ...size,
        ...row("made by", [...makers], "nobody: it enters the model"), ...row("read by", [...readers], "nobody: it leaves the model")),
    );
  });
})();
