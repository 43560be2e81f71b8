"use strict";
// The table of operators: every number of the report, sorted and filtered as one likes.
(() => {
  const { data, make, words, model } = sizeup;
  const { ops } = data;
  const place = document.getElementById("operator-table");
  const count = (column) => (row) => (column[row] === 0 ? "-" : column[row] === null ? "?" : words.count(column[row]));
  const size = (column) => (row) => (column[row] === 0 ? "-" : column[row] === null ? "?" : words.size(column[row]));
  const total = data.model.seconds;

  function tensorButtons(identities) {
    if (!identities.length) return "";
    const buttons = identities.slice(0, 3).map((each) => make("button", {
      type: "button", title: `Follow ${model.tensorName(each)}`, onclick: () => model.follow([each]), text: model.tensorShape(each),
      "aria-label": `Follow ${model.tensorName(each)}, ${model.tensorShape(each)}`,
    }));
    return make("span", { class: "tensors" }, ...buttons, identities.length > 3 ? ` +${identities.length - 3}` : null);
  }

  const flowing = (identities) => identities.filter((each) => !data.tensors.constant[each]);
  const columns = [
    { title: "#", number: true, width: 4, value: (row) => row, cell: (row) => String(row) },
    { title: "operator", width: 9, value: model.kind, cell: model.kind },
    { title: "name", width: 17, value: model.name, cell: model.name, header: true },
    { title: "module", width: 12, value: model.scope, cell: model.scope },
    { title: "reads", width: 10, value: (row) => model.shapes(flowing(model.inputs(row))), cell: (row) => tensorButtons(flowing(model.inputs(row))) },
    { title: "makes", width: 9, value: (row) => model.shapes(model.outputs(row)), cell: (row) => tensorButtons(model.outputs(row)) },
    { title: "type", width: 5, value: model.type, cell: model.type },
    { title: "params", number: true, width: 6, value: (row) => ops.params[row], cell: count(ops.params) },
    { title: "MACs", number: true, width: 6, value: (row) => ops.macs[row], cell: count(ops.macs) },
    { title: "elementwise", number: true, width: 8, value: (row) => ops.elementwise[row], cell: count(ops.elementwise) },
    { title: "read", number: true, width: 6.5, value: (row) => ops.read[row], cell: size(ops.read) },
    { title: "written", number: true, width: 6.5, value: (row) => ops.written[row], cell: size(ops.written) },
    { title: "in memory", number: true, width: 7, value: (row) => ops.live[row], cell: size(ops.live), hint: "Bytes in use while it runs, beside the weights" },
  ];
  if (ops.seconds) {
    columns.push(
      { title: "time", number: true, width: 6, value: (row) => ops.seconds[row], cell: (row) => (ops.seconds[row] ? words.duration(ops.seconds[row]) : "-") },
      { title: "share", number: true, width: 5.5, value: (row) => ops.seconds[row], cell: (row) => (ops.seconds[row] ? words.share(ops.seconds[row], total) : "-") },
      { title: "bound by", width: 6.5, value: model.bound, cell: model.bound },
    );
  }
  if (Object.keys(ops.reasons).length) {
    columns.push({ title: "not counted because", width: 16, value: (row) => ops.reasons[row] ?? null, cell: (row) => ops.reasons[row] ?? "" });
  }

  const table = sizeup.table(place, {
    label: "Operators", noun: "operator", columns, rows: model.count,
    find: (row) => `#${row} ${model.kind(row)} ${model.name(row)} ${model.scope(row)} ${model.type(row)}`,
    marks: (row) => (model.state.makers.has(row) ? "maker" : model.state.readers.has(row) ? "reader" : null),
  });
  const only = make("input", {
    type: "checkbox", id: "only-followed",
    onchange: () => table.keep(only.checked ? (row) => model.state.makers.has(row) || model.state.readers.has(row) : null),
  });
  const box = make("span", { hidden: true, class: "only" }, only, make("label", { for: "only-followed", text: " only those that touch the tensor followed" }));
  place.querySelector(".controls").append(box);
  model.onFollow(({ tensors }) => {
    box.hidden = !tensors.length;
    if (!tensors.length) only.checked = false;
    table.keep(only.checked ? (row) => model.state.makers.has(row) || model.state.readers.has(row) : null);
    const [first] = [...model.state.makers, ...model.state.readers];
    if (first !== undefined) table.show(first);
  });

  /** Bring an operator into sight, from anywhere in the page. */
  sizeup.showOperator = (op) => {
    table.show(op);
    document.getElementById("operators").scrollIntoView();
    const row = place.querySelector(`tr[data-row="${op}"]`);
    if (!row) return;
    row.tabIndex = -1;
    row.focus({ preventScroll: true });
  };
})();
