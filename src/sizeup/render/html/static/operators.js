"use strict";
// The table of operators, which sorts and filters.
(() => {
  const { data, make, words, model } = sizeup;
  const { ops } = data;
  const element = document.getElementById("operator-table");
  const count = (column) => (row) => (column[row] === 0 ? "-" : column[row] === null ? "?" : words.count(column[row]));
  const size = (column) => (row) => (column[row] === 0 ? "-" : column[row] === null ? "?" : words.size(column[row]));
  const total = data.model.seconds;

  function tensorButtons(identities) {
    if (!identities.length) return "";
    const buttons = identities.slice(0, 3).map((each) => make("button", {
      type: "button", title: `Select ${model.tensorName(each)}`, onclick: () => model.follow([each]), text: model.tensorShape(each),
      "aria-label": `Select ${model.tensorName(each)}, ${model.tensorShape(each)}`,
    }));
    return make("span", { class: "tensors" }, ...buttons, identities.length > 3 ? ` +${identities.length - 3}` : null);
  }

  const flowing = (identities) => identities.filter((each) => !data.tensors.constant[each]);
  const hasModules = data.ops.scope.values.some(Boolean);
  const timed = ops.seconds ? [
    { title: "time", number: true, width: 5.5, early: true, narrow: 5, value: (row) => ops.seconds[row], cell: (row) => (ops.seconds[row] ? words.duration(ops.seconds[row]) : "-") },
    { title: "share", number: true, width: 4.5, value: (row) => ops.seconds[row], cell: (row) => (ops.seconds[row] ? words.share(ops.seconds[row], total) : "-"), hint: "Share of the latency" },
    { title: "bound by", width: 6.2, value: model.bound, cell: model.bound },
  ] : [];
  const columns = [
    { title: "#", number: true, width: 3.5, early: true, narrow: 2.8, value: (row) => row, cell: (row) => String(row), hint: "Sort by execution order" },
    { title: "operator", width: 7.2, value: model.kind, cell: model.kind },
    { title: "name", width: hasModules ? 9 : 18, early: true, narrow: 8.6, tail: true, value: model.name, cell: model.name, header: true },
    ...(hasModules ? [{ title: "module", width: 10.5, tail: true, value: model.scope, cell: model.scope }] : []),
    { title: "params", number: true, width: 5.5, value: (row) => ops.params[row], cell: count(ops.params) },
    { title: "MACs", number: true, width: 5, early: true, value: (row) => ops.macs[row], cell: count(ops.macs) },
    ...timed,
    { title: "read", number: true, width: 5.5, value: (row) => ops.read[row], cell: size(ops.read), hint: "Bytes read" },
    { title: "written", number: true, width: 5.5, value: (row) => ops.written[row], cell: size(ops.written), hint: "Bytes written" },
    { title: "live", number: true, width: 6.4, value: (row) => ops.live[row], cell: size(ops.live), hint: "Live activation memory while it runs" },
    { title: "precision", width: 5.5, extra: true, value: model.type, cell: model.type },
    { title: "inputs", width: 10, extra: true, value: (row) => model.shapes(flowing(model.inputs(row))), cell: (row) => tensorButtons(flowing(model.inputs(row))), hint: "Shapes of its inputs, without constants" },
    { title: "outputs", width: 9, extra: true, value: (row) => model.shapes(model.outputs(row)), cell: (row) => tensorButtons(model.outputs(row)), hint: "Shapes of its outputs" },
    { title: "elementwise", number: true, width: 7, extra: true, value: (row) => ops.elementwise[row], cell: count(ops.elementwise), hint: "Operations without a MAC" },
  ];
  if (Object.keys(ops.reasons).length) {
    columns.push({ title: "not counted: reason", width: 16, value: (row) => ops.reasons[row] ?? null, cell: (row) => ops.reasons[row] ?? "" });
  }

  const table = sizeup.table(element, {
    label: "Operators", noun: "operator", columns, rows: model.count,
    find: (row) => `#${row} ${model.kind(row)} ${model.name(row)} ${model.scope(row)} ${model.type(row)}`,
    marks: (row) => (model.state.makers.has(row) ? "maker" : model.state.readers.has(row) ? "reader" : null),
  });
  const only = make("input", {
    type: "checkbox", id: "only-followed",
    onchange: () => table.keep(only.checked ? (row) => model.state.makers.has(row) || model.state.readers.has(row) : null),
  });
  const box = make("span", { hidden: true, class: "only" }, only, make("label", { for: "only-followed", text: " only producer and consumers of the selected tensor" }));
  element.querySelector(".controls").append(box);
  model.onFollow(({ tensors }) => {
    box.hidden = !tensors.length;
    if (!tensors.length) only.checked = false;
    table.keep(only.checked ? (row) => model.state.makers.has(row) || model.state.readers.has(row) : null);
    const [first] = [...model.state.makers, ...model.state.readers];
    if (first !== undefined) table.show(first);
  });

  /** Scroll to an operator. */
  sizeup.showOperator = (op) => {
    table.show(op);
    document.getElementById("operators").scrollIntoView();
    const row = element.querySelector(`tr[data-row="${op}"]`);
    if (!row) return;
    row.tabIndex = -1;
    row.focus({ preventScroll: true });
  };
})();
