"use strict";
// The model of the page: columns of operators and tensors, and the selected tensor.
sizeup.model = (() => {
  const { ops, tensors } = sizeup.data;
  const { words } = sizeup;
  const decoded = (column, row) => column.values[column.rows[row]];
  const list = (column, row) => column.items.slice(column.first[row], column.first[row + 1]);
  const count = ops.name.length;

  const makers = new Map();
  const readers = new Map();
  for (let op = 0; op < count; op += 1) {
    for (const tensor of list(ops.outputs, op)) makers.set(tensor, op);
    for (const tensor of new Set(list(ops.inputs, op))) {
      if (!readers.has(tensor)) readers.set(tensor, []);
      readers.get(tensor).push(op);
    }
  }

  const isInput = new Set(tensors.inputs);
  const isOutput = new Set(tensors.outputs);
  const state = { tensors: [], makers: new Set(), readers: new Set() };
  const followed = [];

  /** Select tensors that share memory; an empty list clears the selection. */
  function follow(identities) {
    state.tensors = identities;
    state.makers = new Set(identities.map((each) => makers.get(each)).filter((each) => each !== undefined));
    state.readers = new Set(identities.flatMap((each) => readers.get(each) ?? []));
    followed.forEach((call) => call(state));
  }

  return {
    count,
    state,
    follow,
    onFollow: (call) => followed.push(call),
    name: (op) => ops.name[op] || `(unnamed ${decoded(ops.op_kind, op)})`,
    kind: (op) => decoded(ops.op_kind, op),
    scope: (op) => decoded(ops.scope, op),
    type: (op) => decoded(ops.type, op) ?? "",
    bound: (op) => (ops.bound ? decoded(ops.bound, op) ?? "" : ""),
    inputs: (op) => list(ops.inputs, op).filter((each) => each >= 0),
    outputs: (op) => list(ops.outputs, op),
    maker: (tensor) => makers.get(tensor),
    readers: (tensor) => readers.get(tensor) ?? [],
    isInput: (tensor) => isInput.has(tensor),
    isOutput: (tensor) => isOutput.has(tensor),
    tensorName: (tensor) => tensors.name[tensor] || `(tensor ${tensor})`,
    tensorShape: (tensor) => decoded(tensors.shape, tensor),
    tensorType: (tensor) => decoded(tensors.type, tensor),
    shapes: (identities) => identities.map((each) => decoded(tensors.shape, each)).join(", "),
    size: (bytes) => (bytes === null || bytes === undefined ? "?" : words.size(bytes)),
    number: (value) => (value === null || value === undefined ? "?" : value === 0 ? "-" : words.count(value)),
  };
})();
