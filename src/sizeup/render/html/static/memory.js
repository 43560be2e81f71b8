"use strict";
// Live memory and the memory plan by operator, on one axis; a tensor can be selected.
(() => {
  const { data, color, make, words, plot, model } = sizeup;
  const element = document.getElementById("memory-plot");
  const map = data.memory;
  if (!element || !map) return;
  const steps = data.ops.live.length;
  const many = map.size.length > 800;
  const members = map.size.map((_, box) => map.tensors.items.slice(map.tensors.first[box], map.tensors.first[box + 1]));
  const boxOf = new Map();
  members.forEach((tensors, box) => tensors.forEach((each) => boxOf.set(each, box)));

  // The axes are in one unit of 1024^n bytes.
  const most = Math.max(map.height, map.peak_bytes, 1);
  const power = Math.min(4, Math.max(0, Math.floor(Math.log(most) / Math.log(1024))));
  const unit = 1024 ** power;
  const unitName = ["bytes", "KiB", "MiB", "GiB", "TiB"][power];

  function title(box) {
    const [first] = members[box];
    return first === undefined ? `workspace of operator ${map.first[box]}` : model.tensorName(first);
  }

  function hoverText(box) {
    const [first, ...aliases] = members[box];
    const lines = [`<b>${plot.plain(title(box))}</b>`];
    if (first !== undefined) lines.push(`${model.tensorShape(first)} ${plot.plain(model.tensorType(first))}${aliases.length ? `, ${words.plural(aliases.length, "alias", "aliases")}` : ""}`);
    lines.push(`${words.size(map.size[box])} (${words.grouped(map.size[box])} B) at offset ${words.grouped(map.offset[box])}`);
    lines.push(map.first[box] === map.last[box] ? `live during operator ${map.first[box]}` : `live from operator ${map.first[box]} to ${map.last[box]}`);
    return lines.join("<br>");
  }

  function hue(box, isFollowed) {
    if (isFollowed) return "red";
    const [first] = members[box];
    if (first === undefined) return "gray";
    if (members[box].some(model.isInput)) return "orange";
    if (members[box].some(model.isOutput)) return "green";
    return box % 2 ? "blue" : "sky";
  }

  function boxes() {
    const following = new Set(model.state.tensors.map((each) => boxOf.get(each)));
    const hues = new Map(["red", "gray", "orange", "green", "blue", "sky"].map((each) => [each, color(each)]));
    const all = map.size.map((_, box) => box);
    return {
      type: "bar", name: "arena", xaxis: "x", yaxis: "y2", showlegend: false,
      x: all.map((box) => (map.first[box] + map.last[box]) / 2),
      width: all.map((box) => map.last[box] - map.first[box] + 1),
      base: all.map((box) => map.offset[box] / unit), y: all.map((box) => map.size[box] / unit),
      text: all.map(hoverText), textposition: "none", hovertemplate: "%{text}<extra></extra>", customdata: all,
      marker: {
        color: all.map((box) => hues.get(hue(box, following.has(box)))),
        opacity: all.map((box) => (!model.state.tensors.length || following.has(box) ? 0.85 : 0.3)),
        line: { color: color("paper"), width: many ? 0 : 0.8 },
      },
    };
  }

  /** Lines through both plots at the producer and the consumers of the selected tensor. */
  function marks() {
    const line = (op, dash) => ({
      type: "line", xref: "x", yref: "paper", x0: op, x1: op, y0: 0, y1: 1, line: { color: color("red"), width: 1.2, dash },
    });
    return [...[...model.state.makers].map((op) => line(op, "solid")), ...[...model.state.readers].slice(0, 200).map((op) => line(op, "dot"))];
  }

  function build() {
    // Half a step on either side, so that the first and the last operator are as wide as the others.
    const ops = [0, ...data.ops.live.keys(), steps - 1];
    const live = {
      type: "scatter", mode: "lines", name: "live memory", x: ops.map((op, index) => (index === 0 ? -0.5 : index === ops.length - 1 ? steps - 0.5 : op)),
      y: ops.map((op) => data.ops.live[op] / unit),
      line: { shape: "hvh", color: color("blue"), width: 1.5 }, fill: "tozeroy", fillcolor: color("mark-reader"), showlegend: false,
      text: ops.map((op) => `<b>${words.size(data.ops.live[op])} live</b><br>operator ${op}, ${plot.plain(model.kind(op))}<br>${plot.plain(model.name(op))}`),
      hovertemplate: "%{text}<extra></extra>",
    };
    const top = {
      type: "scatter", mode: "markers+text", x: [map.peak_op], y: [map.peak_bytes / unit], showlegend: false, hoverinfo: "skip",
      marker: { color: color("red"), size: 8, symbol: "diamond" }, text: [`\u00a0\u00a0peak ${words.size(map.peak_bytes)}\u00a0\u00a0`],
      textposition: map.peak_op < steps / 2 ? "top right" : "top left", textfont: { color: color("ink") }, cliponaxis: false,
    };
    return {
      traces: [live, top, boxes()],
      layout: {
        height: 560, bargap: 0, barmode: "overlay", hovermode: "closest", shapes: marks(), dragmode: "zoom",
        xaxis: { title: { text: "operator, in execution order" }, range: [-0.6, steps - 0.4], anchor: "y2", hoverformat: "d" },
        yaxis: { title: { text: `live memory, ${unitName}` }, domain: [0.56, 1], rangemode: "tozero", range: [0, (1.18 * map.peak_bytes) / unit] },
        yaxis2: { title: { text: `offset, ${unitName}` }, domain: [0, 0.48], range: [0, (1.02 * map.height) / unit] },
      },
    };
  }

  const drawing = plot(element, build);
  element.on("plotly_click", ({ points: [point] }) => {
    if (point.data.name === "arena" && members[point.customdata].length) model.follow(members[point.customdata]);
  });

  // Selection by name, without a mouse.
  const panel = document.getElementById("followed");
  const names = make("datalist", { id: "tensor-names" });
  const input = make("input", {
    type: "search", class: "grow", list: "tensor-names", id: "follow", placeholder: "Tensor name", autocomplete: "off",
    oninput: () => {
      const text = input.value.toLowerCase();
      const matches = [...boxOf.keys()].filter((each) => model.tensorName(each).toLowerCase().includes(text)).slice(0, 30);
      names.replaceChildren(...matches.map((each) => make("option", { value: model.tensorName(each) })));
    },
    onchange: () => {
      const match = [...boxOf.keys()].find((each) => model.tensorName(each) === input.value);
      if (match !== undefined) model.follow(members[boxOf.get(match)]);
    },
  });
  const stop = make("button", { type: "button", hidden: true, onclick: () => model.follow([]), text: "Clear selection" });
  document.getElementById("follow-controls").append(make("label", { for: "follow", text: "Select a tensor" }), input, names, stop);

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
      input.value = "";
      panel.replaceChildren();
      return;
    }
    const box = boxOf.get(tensors[0]);
    const size = box === undefined ? [] : [
      make("dt", { text: "live" }),
      make("dd", { text: `${words.size(map.size[box])}, from operator ${map.first[box]} to ${map.last[box]}` }),
    ];
    panel.replaceChildren(
      make("h3", { text: model.tensorName(tensors[0]) }),
      make("p", { class: "soft", text: `${model.tensorShape(tensors[0])} ${model.tensorType(tensors[0])}${tensors.length > 1 ? `, ${words.plural(tensors.length - 1, "alias", "aliases")}` : ""}` }),
      make("dl", { class: "facts" }, ...size,
        ...row("producer", [...makers], "none: model input"), ...row("consumers", [...readers], "none: model output")),
    );
  });
})();
