"use strict";
// What if: other precisions of all layers or of one.
(() => {
  const { data, make, words, model } = sizeup;
  const whatIf = data.what_if;
  const element = document.getElementById("what-if-content");
  if (!element || !whatIf) return;
  const chosen = new Map();
  const base = sizeup.precisionMap(data, chosen);
  const layerName = (row) => model.scope(whatIf.layers[row]) || model.name(whatIf.layers[row]);
  const reported = data.model.precision ? `all at ${data.model.precision}` : "originally";
  const BASES = { calibrated: "calibration", roofline: "data sheet", instructions: "instructions" };
  const nameOf = (code) => whatIf.types[code].name;

  function options(code, own) {
    return [
      make("option", { value: "", text: own, selected: code === undefined }),
      ...whatIf.offered.map((each) => make("option", { value: each, text: nameOf(each), selected: each === code })),
    ];
  }

  const all = make("select", {
    id: "all-types",
    onchange: () => {
      chosen.clear();
      if (all.value !== "") whatIf.layers.forEach((op) => chosen.set(op, Number(all.value)));
      change();
    },
  }, ...options(undefined, "original"));
  const reset = make("button", { type: "button", onclick: () => { all.value = ""; all.dispatchEvent(new Event("change")); }, text: "Reset" });
  const controls = make("div", { class: "controls" }, make("label", { for: "all-types", text: "All layers at" }), all, reset);
  const results = make("dl", { class: "results", "aria-live": "polite" });
  const summary = make("p", { id: "what-if-summary", class: "soft" });
  const mapping = make("code", { id: "what-if-mapping" });
  const same = make("p", { class: "soft", hidden: true }, "In Python: ", mapping);
  const layerTable = make("div", { id: "layer-table" });
  element.append(controls, results, summary, same, make("h3", { text: "By layer", class: "screen" }), layerTable);

  const weightsOf = whatIf.layers.map((op) => data.ops.params[op]);
  const table = sizeup.table(layerTable, {
    label: "Layers and their precisions", noun: "layer", rows: whatIf.layers.length, limit: "19rem",
    find: (row) => `${model.kind(whatIf.layers[row])} ${model.name(whatIf.layers[row])} ${model.scope(whatIf.layers[row])}`,
    columns: [
      { title: "#", number: true, width: 3.2, value: (row) => whatIf.layers[row], cell: (row) => String(whatIf.layers[row]) },
      { title: "layer", width: 10, tail: true, value: layerName, cell: layerName, header: true },
      { title: "precision", width: 8.8, value: (row) => chosen.get(whatIf.layers[row]) ?? -1, cell: select },
      { title: "operator", width: 9, value: (row) => model.kind(whatIf.layers[row]), cell: (row) => model.kind(whatIf.layers[row]) },
      { title: "params", number: true, width: 7, value: (row) => weightsOf[row], cell: (row) => model.number(weightsOf[row]) },
      { title: "MACs", number: true, width: 7, value: (row) => data.ops.macs[whatIf.layers[row]], cell: (row) => model.number(data.ops.macs[whatIf.layers[row]]) },
    ],
  });

  function select(row) {
    const op = whatIf.layers[row];
    const own = whatIf.own[row] >= 0 ? nameOf(whatIf.own[row]) : "";
    const box = make("select", {
      "aria-label": `Precision of layer ${layerName(row)}`, "data-op": op,
      onchange: () => {
        if (box.value === "") chosen.delete(op);
        else chosen.set(op, Number(box.value));
        change(false);
      },
    }, ...options(chosen.get(op), `original (${own})`));
    return box;
  }

  /** Returns one quantity; `write` formats an amount, and `writeBefore` the original one. */
  function result(label, key, now, before, write, writeBefore = write) {
    const shown = now === null || now === undefined ? "unknown" : write(now);
    const isChanged = chosen.size && before && now !== null && now !== before;
    const change = isChanged ? `${now < before ? "−" : "+"}${Math.abs(100 * (now - before) / before).toFixed(1)} %` : "";
    return make("div", { class: "result" }, make("dt", { text: label }),
      make("dd", { "data-key": key, "data-value": now }, make("strong", { text: shown }),
        make("span", { class: now < before ? "less" : "more", text: change }),
        make("small", { text: before === null || before === undefined ? "" : `${reported} ${writeBefore(before)}` })));
  }

  function interval(latency) {
    return latency.low === null || latency.high === null ? "" : ` (90 % interval ${words.duration(latency.low)} to ${words.duration(latency.high)})`;
  }

  function change(isAnew = true) {
    const now = sizeup.precisionMap(data, chosen);
    const exact = (value) => `${words.size(value)}`;
    const rows = [
      result("Weights", "weights", now.weights, base.weights, exact),
      result("Read per inference", "read", now.read, base.read, exact),
      result("Written per inference", "written", now.written, base.written, exact),
      result("Peak activation memory", "peak", now.peak, base.peak, exact),
    ];
    if (now.latency) {
      const write = ({ isLowerBound }) => (seconds) => `${isLowerBound ? "at least " : ""}${words.duration(seconds)}`;
      const label = `Latency (${BASES[whatIf.latency.basis] ?? whatIf.latency.basis})`;
      rows.push(result(label, "latency", now.latency.seconds, base.latency.seconds, write(now.latency), write(base.latency)));
    }
    results.replaceChildren(...rows);
    results.dataset.conversions = now.conversions.length;
    summary.textContent = sentence(now);
    same.hidden = !chosen.size;
    mapping.textContent = `sizeup.analyze(model, precision=${JSON.stringify(asMapping())})`;
    if (isAnew) table.redraw();
    else if (chosen.size !== whatIf.layers.length || new Set(chosen.values()).size > 1) all.value = "";
  }

  function sentence(now) {
    if (!chosen.size) {
      const other = now.latency && whatIf.latency.reported_basis !== whatIf.latency.basis
        ? ` Its latency here is on the basis that all precisions have, ${BASES[whatIf.latency.basis]}, and does not compare with the one at the top of the page.`
        : "";
      return `Every layer has its original precision.${other}`;
    }
    const parts = [`${words.plural(chosen.size, "layer")} of ${words.grouped(whatIf.layers.length)} set.`];
    const moved = now.conversions.reduce((sum, each) => sum + each.moved, 0);
    parts.push(now.conversions.length
      ? `Includes ${words.plural(now.conversions.length, "conversion")} between precisions, which move ${words.size(moved)}.`
      : "No conversion is needed.");
    if (now.latency) {
      parts.push(`Latency${interval(now.latency)} is ${now.latency.exact ? "an estimate of the model at this precision." : "the sum over operators at their precisions, with conversions as separate kernels."}`);
    }
    return parts.join(" ");
  }

  /** Returns the precision map for Python; one entry if all layers agree. */
  function asMapping() {
    const types = new Set(chosen.values());
    if (chosen.size === whatIf.layers.length && types.size === 1) return { "*": nameOf([...types][0]) };
    return Object.fromEntries([...chosen].map(([op, code]) => [`#${op}`, nameOf(code)]));
  }

  change();
  sizeup.choose = (op, code) => {
    if (code === null) chosen.delete(op);
    else chosen.set(op, code);
    change();
  };
})();
