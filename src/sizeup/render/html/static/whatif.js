"use strict";
// What if: other number types of all layers or of one, and what that changes.
(() => {
  const { data, make, words, model } = sizeup;
  const given = data.what_if;
  const place = document.getElementById("what-if-content");
  if (!place || !given) return;
  const chosen = new Map();
  const base = sizeup.mixture(data, chosen);
  const layerName = (row) => model.scope(given.layers[row]) || model.name(given.layers[row]);
  const reported = data.model.precision ? `all at ${data.model.precision}` : "as given";
  const nameOf = (code) => given.types[code].name;

  function options(code, own) {
    return [
      make("option", { value: "", text: own, selected: code === undefined }),
      ...given.offered.map((each) => make("option", { value: each, text: nameOf(each), selected: each === code })),
    ];
  }

  const all = make("select", {
    id: "all-types",
    onchange: () => {
      chosen.clear();
      if (all.value !== "") given.layers.forEach((op) => chosen.set(op, Number(all.value)));
      change();
    },
  }, ...options(undefined, "as given"));
  const reset = make("button", { type: "button", onclick: () => { all.value = ""; all.dispatchEvent(new Event("change")); }, text: "Reset" });
  const controls = make("div", { class: "controls" }, make("label", { for: "all-types", text: "All layers at" }), all, reset);
  const results = make("dl", { class: "results", "aria-live": "polite" });
  const says = make("p", { id: "what-if-says", class: "soft" });
  const mapping = make("code", { id: "what-if-mapping" });
  const same = make("p", { class: "soft", hidden: true }, "The same in Python: ", mapping);
  const layerTable = make("div", { id: "layer-table" });
  place.append(controls, results, says, same, make("h3", { text: "One layer at a time", class: "screen" }), layerTable);

  const weightsOf = given.layers.map((op) => data.ops.params[op]);
  const table = sizeup.table(layerTable, {
    label: "Layers and their types", noun: "layer", rows: given.layers.length, limit: "19rem",
    find: (row) => `${model.kind(given.layers[row])} ${model.name(given.layers[row])} ${model.scope(given.layers[row])}`,
    columns: [
      { title: "#", number: true, width: 3.2, value: (row) => given.layers[row], cell: (row) => String(given.layers[row]) },
      { title: "layer", width: 10, tail: true, value: layerName, cell: layerName, header: true },
      { title: "type", width: 8.8, value: (row) => chosen.get(given.layers[row]) ?? -1, cell: select },
      { title: "operator", width: 9, value: (row) => model.kind(given.layers[row]), cell: (row) => model.kind(given.layers[row]) },
      { title: "params", number: true, width: 7, value: (row) => weightsOf[row], cell: (row) => model.number(weightsOf[row]) },
      { title: "MACs", number: true, width: 7, value: (row) => data.ops.macs[given.layers[row]], cell: (row) => model.number(data.ops.macs[given.layers[row]]) },
    ],
  });

  function select(row) {
    const op = given.layers[row];
    const own = given.own[row] >= 0 ? nameOf(given.own[row]) : "";
    const box = make("select", {
      "aria-label": `Type of layer ${layerName(row)}`, "data-op": op,
      onchange: () => {
        if (box.value === "") chosen.delete(op);
        else chosen.set(op, Number(box.value));
        change(false);
      },
    }, ...options(chosen.get(op), `${own} as given`));
    return box;
  }

  function result(label, key, now, before, write) {
    const shown = now === null || now === undefined ? "unknown" : write(now);
    const isChanged = chosen.size && before && now !== null && now !== before;
    const change = isChanged ? `${now < before ? "−" : "+"}${Math.abs(100 * (now - before) / before).toFixed(1)} %` : "";
    return make("div", { class: "result" }, make("dt", { text: label }),
      make("dd", { "data-key": key, "data-value": now }, make("strong", { text: shown }),
        make("span", { class: now < before ? "less" : "more", text: change }),
        make("small", { text: before === null || before === undefined ? "" : `${reported} ${write(before)}` })));
  }

  function range(latency) {
    return latency.low === null || latency.high === null ? "" : ` (${words.duration(latency.low)} to ${words.duration(latency.high)})`;
  }

  function change(isAnew = true) {
    const now = sizeup.mixture(data, chosen);
    const exact = (value) => `${words.size(value)}`;
    const rows = [
      result("Weights", "weights", now.weights, base.weights, exact),
      result("Read in one pass", "read", now.read, base.read, exact),
      result("Written in one pass", "written", now.written, base.written, exact),
      result("Arena, at least", "peak", now.peak, base.peak, exact),
    ];
    if (now.latency) rows.push(result("Latency", "latency", now.latency.seconds, base.latency.seconds, words.duration));
    results.replaceChildren(...rows);
    results.dataset.conversions = now.conversions.length;
    says.textContent = sentence(now);
    same.hidden = !chosen.size;
    mapping.textContent = `sizeup.analyze(model, precision=${JSON.stringify(asMapping())})`;
    if (isAnew) table.redraw();
    else if (chosen.size !== given.layers.length || new Set(chosen.values()).size > 1) all.value = "";
  }

  function sentence(now) {
    if (!chosen.size) return "Every layer has the type that the model gives it.";
    const parts = [`${words.plural(chosen.size, "layer")} of ${words.grouped(given.layers.length)} set.`];
    const moved = now.conversions.reduce((sum, each) => sum + each.moved, 0);
    parts.push(now.conversions.length
      ? `${words.plural(now.conversions.length, "conversion")} between types, which move ${words.size(moved)}, are counted in.`
      : "No conversion between types is needed.");
    if (now.latency) {
      parts.push(`Latency${range(now.latency)} ${now.latency.exact ? "is an estimate of the whole model at this type." : "adds up what operators take at their types, and conversions as kernels of their own."}`);
    }
    return parts.join(" ");
  }

  /** What to give to Python, in few words where all layers agree. */
  function asMapping() {
    const types = new Set(chosen.values());
    if (chosen.size === given.layers.length && types.size === 1) return { "*": nameOf([...types][0]) };
    return Object.fromEntries([...chosen].map(([op, code]) => [`#${op}`, nameOf(code)]));
  }

  change();
  sizeup.choose = (op, code) => {
    if (code === null) chosen.delete(op);
    else chosen.set(op, code);
    change();
  };
})();
