"use strict";
// Other precisions, computed in the page as by `sizeup.analyze(model, precision={layer: dtype})`.
sizeup.precisionMap = (() => {
  const FOLLOWS = 1, CONSTANT = 2, PARAMETER = 4, SMALL = 8, SCRATCH = 16; // of tensors
  const KEEPS = 1, VIEW = 2; // of operators
  const ABSENT = -1, NONE = -1;
  const QUANTIZED_BITS = 16; // integers up to this width have biases and scales of 32 bits

  /** Returns the bytes of `elements` numbers moved `times` times; multiples of 8 first, so that no product is in bits. */
  function bytes(elements, bits, times = 1) {
    const odd = elements % 8;
    return times * (((elements - odd) / 8) * bits + Math.ceil((odd * bits) / 8));
  }

  /** The dtype of every operator, and the conversions between operators. */
  class Assigned {
    constructor(ops, tensors, given, chosen) {
      Object.assign(this, { ops, tensors, given, explicit: chosen });
      this.chosen = new Map();
      this.unchanged = new Set(); // layers whose weights keep their dtype
      given.layers.forEach((op, place) => {
        if (given.own[place] === NONE) return;
        this.chosen.set(op, given.own[place]);
        if (!chosen.has(op)) this.unchanged.add(op);
      });
      for (const [op, type] of chosen) this.chosen.set(op, type);
      this.typed = new Map(); // the dtype in which a value is produced
      this.tensorAt = new Map(); // value -> dtype -> tensor
      this.converted = []; // tensors produced by conversions: {value, type}
      this.steps = []; // operators and conversions in execution order
      this.types = new Array(ops.op_kind.rows.length).fill(null);
      this.scratch = new Map(); // the same for scratch memory
      this.contents = new Set(); // stored constants, as "content:dtype"
      this.read = new Set(); // constants that are read
      this.run();
    }

    flag(tensor, bit) { return (this.given.tensors.flags[tensor] & bit) !== 0; }
    own(tensor) { return this.given.tensors.type[tensor]; }
    kind(type) { return this.given.types[type]; }
    inputs(op) { return list(this.ops.inputs, op); }
    outputs(op) { return list(this.ops.outputs, op); }

    run() {
      for (const tensor of this.tensors.inputs) {
        if (this.flag(tensor, FOLLOWS)) this.make(tensor, this.requested(tensor) ?? this.own(tensor));
      }
      for (let op = 0; op < this.types.length; op += 1) {
        const outputs = this.outputs(op);
        if (outputs.length && String(outputs[0]) in this.given.ops.unpacked) continue;
        this.add(op, this.typeOf(op));
      }
    }

    /** Returns the dtype of all layers that read a value, directly or through other operators; null if they differ. */
    requested(tensor) {
      const readers = this.readers ??= readersOf(this.ops);
      const dtypes = new Set();
      const seen = new Set([tensor]);
      const stack = [tensor];
      while (stack.length) {
        for (const op of readers.get(stack.pop()) ?? []) {
          if (this.chosen.has(op)) dtypes.add(this.chosen.get(op));
          else {
            for (const made of this.outputs(op)) {
              if (!seen.has(made)) {
                seen.add(made);
                stack.push(made);
              }
            }
          }
        }
      }
      return dtypes.size === 1 ? [...dtypes][0] : null;
    }

    typeOf(op) {
      const flags = this.given.ops.flags[op];
      if (flags & KEEPS || !this.outputs(op).some((each) => this.flag(each, FOLLOWS))) return null;
      if (this.chosen.has(op)) return this.chosen.get(op);
      const inputs = this.inputs(op);
      const fed = inputs.filter((each) => this.typed.has(each)).map((each) => this.typed.get(each));
      if (!fed.length) return null;
      if (flags & VIEW) return this.typed.get(inputs[0]) ?? null;
      return fed.reduce((best, each) => (this.isWider(each, best) ? each : best));
    }

    isWider(left, right) {
      const [a, b] = [this.kind(left), this.kind(right)];
      return a.bits > b.bits || (a.bits === b.bits && a.family === "float" && b.family !== "float");
    }

    make(tensor, type) {
      this.typed.set(tensor, type);
      if (!this.tensorAt.has(tensor)) this.tensorAt.set(tensor, new Map());
      this.tensorAt.get(tensor).set(this.kind(type).dtype, tensor);
    }

    add(op, type) {
      this.types[op] = type;
      const inputs = this.inputs(op).map((tensor) => this.input(op, tensor, type));
      this.steps.push({ op, inputs, outputs: this.outputs(op) });
      for (const tensor of this.outputs(op)) {
        if (!this.flag(tensor, CONSTANT) && this.flag(tensor, FOLLOWS)) this.make(tensor, type ?? this.own(tensor));
      }
    }

    /** Returns the tensor that replaces an input: itself, or the output of a conversion. */
    input(op, tensor, type) {
      if (tensor === ABSENT) return ABSENT;
      if (this.flag(tensor, CONSTANT)) {
        const [source, at] = this.constantAt(op, tensor, type);
        this.store(source, at);
        return this.flag(source, SCRATCH) ? this.scratchAt(source, at) : source;
      }
      if (!this.flag(tensor, FOLLOWS)) return tensor;
      const at = type ?? this.own(tensor);
      const name = this.kind(at).dtype;
      if (!this.tensorAt.has(tensor)) this.make(tensor, this.own(tensor));
      const tensorAt = this.tensorAt.get(tensor);
      if (!tensorAt.has(name)) {
        const made = this.tensors.name.length + this.converted.length;
        this.converted.push({ value: tensor, from: this.typed.get(tensor), type: at });
        tensorAt.set(name, made);
        this.steps.push({ op: null, inputs: [tensor], outputs: [made], conversion: this.converted.length - 1 });
      }
      return tensorAt.get(name);
    }

    /** Returns the constant that an operator reads, and its dtype. */
    constantAt(op, tensor, type) {
      const packed = this.given.ops.unpacked[tensor];
      let source = tensor;
      if (packed !== undefined && this.explicit.has(op)) source = packed;
      else if (packed !== undefined) {
        this.store(packed, this.own(packed));
        return [tensor, this.own(tensor)];
      }
      if (!this.flag(source, FOLLOWS)) return [source, this.own(source)];
      const own = this.own(source);
      let at = this.unchanged.has(op) ? own : type ?? own;
      let kind = this.kind(at);
      if (kind.family === "int" && kind.bits <= QUANTIZED_BITS && this.flag(source, PARAMETER) && this.flag(source, SMALL)) {
        at = this.given.wide;
        kind = this.kind(at);
      }
      const mine = this.kind(own);
      return [source, kind.bits === mine.bits && kind.family === mine.family ? own : at];
    }

    /** Returns the scratch tensor of a dtype: scratch memory exists once per dtype. */
    scratchAt(tensor, type) {
      if (!this.scratch.has(tensor)) this.scratch.set(tensor, new Map([[type, tensor]]));
      const tensorAt = this.scratch.get(tensor);
      if (!tensorAt.has(type)) {
        tensorAt.set(type, this.tensors.name.length + this.converted.length);
        this.converted.push({ value: tensor, from: type, type, isScratch: true });
      }
      return tensorAt.get(type);
    }

    store(tensor, type) {
      this.read.add(tensor);
      const content = this.given.weights.of_tensor[tensor];
      if (content >= 0) this.contents.add(`${content}:${type === this.own(tensor) ? "own" : type}`);
    }

    /** Returns the bits per element with which an operator reads or writes a tensor. */
    bits(op, tensor) {
      if (this.flag(tensor, CONSTANT)) return this.kind(this.constantAt(op, tensor, this.types[op])[1]).bits;
      if (!this.flag(tensor, FOLLOWS)) return this.kind(this.own(tensor)).bits;
      return this.kind(this.types[op] ?? this.own(tensor)).bits;
    }

    /** Returns the bytes of the scales that an operator reads with elements of a weight that keeps its dtype. */
    scaleBytes(op, tensor, elements) {
      const total = this.given.tensors.scales?.[tensor] ?? 0;
      if (!total || this.constantAt(op, tensor, this.types[op])[1] !== this.own(tensor)) return 0;
      return Number((BigInt(elements) * BigInt(total)) / BigInt(this.given.tensors.elements[tensor]));
    }

    size(tensor) {
      const count = this.given.tensors.elements;
      const made = this.converted[tensor - this.tensors.name.length];
      if (made) return bytes(count[made.value] ?? 0, this.kind(made.type).bits);
      const asked = this.scratch.get(tensor)?.keys().next().value;
      return bytes(count[tensor] ?? 0, this.kind(asked ?? this.typed.get(tensor) ?? this.own(tensor)).bits);
    }
  }

  function list(columns, row) {
    return columns.items.slice(columns.first[row], columns.first[row + 1]);
  }

  function readersOf(ops) {
    const readers = new Map();
    for (let op = 0; op < ops.op_kind.rows.length; op += 1) {
      for (const tensor of new Set(list(ops.inputs, op))) {
        if (!readers.has(tensor)) readers.set(tensor, []);
        readers.get(tensor).push(op);
      }
    }
    return readers;
  }

  /** Returns the bytes of all accesses. */
  function moved(assigned, accesses) {
    let sum = 0;
    for (let op = 0; op + 1 < accesses.first.length; op += 1) {
      for (let place = accesses.first[op]; place < accesses.first[op + 1]; place += 1) {
        const tensor = accesses.tensor[place];
        const bits = tensor < 0 ? -tensor : assigned.bits(op, tensor);
        sum += bytes(accesses.elements[place], bits, accesses.times[place]);
        if (tensor >= 0) sum += accesses.times[place] * assigned.scaleBytes(op, tensor, accesses.elements[place]);
      }
    }
    return sum;
  }

  /** Returns the bytes of all parameters: each content once per dtype in which it is read. */
  function stored(assigned) {
    const { weights, tensors, types } = assigned.given;
    const first = new Map();
    weights.of_tensor.forEach((content, tensor) => {
      if (content < 0) return;
      if (!first.has(content)) first.set(content, tensor);
      if (!assigned.read.has(tensor)) assigned.contents.add(`${content}:own`);
    });
    weights.held.forEach((content) => assigned.contents.add(`${content}:own`));
    let sum = weights.fixed;
    for (const key of assigned.contents) {
      const [content, type] = key.split(":");
      const tensor = first.get(Number(content));
      const kept = type === "own" ? weights.stored[content] : undefined;
      const bits = types[type === "own" ? tensors.type[tensor] : Number(type)].bits;
      sum += kept ?? bytes(tensors.elements[tensor] ?? 0, bits);
    }
    return sum;
  }

  /** Returns the peak activation memory in this schedule; aliases share memory. */
  function peak(assigned) {
    const { steps, tensors, given } = assigned;
    const total = tensors.name.length + assigned.converted.length;
    const last = new Array(total).fill(-1);
    steps.forEach((step, time) => {
      for (const tensor of step.outputs) last[tensor] = time;
      for (const tensor of step.inputs) if (tensor !== ABSENT) last[tensor] = time;
    });
    for (const tensor of tensors.outputs) last[tensor] = steps.length - 1;
    const buffer = new Array(total).fill(NONE);
    const [sizes, starts, ends] = [[], [], []];
    const open = (tensor, time, shared) => {
      const isConstant = tensor < tensors.name.length && assigned.flag(tensor, CONSTANT) && !assigned.flag(tensor, SCRATCH);
      if (buffer[tensor] !== NONE || isConstant) return;
      let place = shared;
      if (place === NONE) {
        place = sizes.push(0) - 1;
        starts.push(time);
        ends.push(time);
      }
      buffer[tensor] = place;
      sizes[place] = Math.max(sizes[place], assigned.size(tensor));
      ends[place] = Math.max(ends[place], last[tensor], time);
    };
    for (const tensor of tensors.inputs) open(tensor, 0, NONE);
    given.tensors.flags.forEach((flags, tensor) => { if (flags & SCRATCH) open(tensor, 0, NONE); });
    assigned.converted.forEach((each, place) => { if (each.isScratch) open(tensors.name.length + place, 0, NONE); });
    steps.forEach((step, time) => {
      const isView = step.op !== null && (given.ops.flags[step.op] & VIEW) !== 0;
      const source = isView && step.inputs.length ? step.inputs[0] : ABSENT;
      const shared = source === ABSENT ? NONE : buffer[source];
      step.outputs.forEach((tensor) => {
        if (tensor >= tensors.name.length || !assigned.flag(tensor, CONSTANT)) open(tensor, time, shared);
      });
    });
    const change = new Array(steps.length + 1).fill(0);
    sizes.forEach((size, place) => {
      change[starts[place]] += size;
      change[ends[place] + 1] -= size;
    });
    let [live, most] = [0, 0];
    for (let time = 0; time < steps.length; time += 1) {
      live += change[time];
      most = Math.max(most, live);
    }
    return most;
  }

  /** Returns the latency in seconds and its 90 % interval: the sum over operators and conversions. */
  function seconds(assigned, traffic) {
    const known = assigned.given.latency;
    if (known.unavailable !== undefined) return null;
    const uniform = uniformType(assigned);
    if (uniform !== null && uniform in known.types) {
      return whole(known.types[uniform]);
    }
    let sum = known.run;
    const used = [known.own];
    assigned.types.forEach((type, op) => {
      const output = assigned.outputs(op)[0];
      // An explicit choice of the original dtype may still widen the weights.
      const isSame = output === undefined || (type === assigned.own(output) && !assigned.explicit.has(op));
      const isOwn = type === null || isSame;
      const column = isOwn ? known.own : known.types[assigned.kind(type).name] ?? known.own;
      if (!used.includes(column)) used.push(column);
      sum += column.ops[op];
    });
    for (const each of traffic) sum += conversionSeconds(known.conversion, each);
    const bound = (name, pick) => (used.some((each) => each[name] === null) ? null : sum * pick(...used.map((each) => each[name])));
    const isLowerBound = used.some((each) => each.is_lower_bound);
    return { seconds: sum, low: bound("low", Math.min), high: bound("high", Math.max), exact: false, isLowerBound };
  }

  /** Returns the latency of a whole model: `low` and `high` of an estimate are multiples of it. */
  function whole({ whole: seconds, low, high, is_lower_bound: isLowerBound }) {
    const end = (multiple) => (multiple === null ? null : multiple * seconds);
    return { seconds, low: end(low), high: end(high), exact: true, isLowerBound };
  }

  function conversionSeconds(prices, { from, moved: amount }) {
    const price = prices[from] ?? prices["*"] ?? prices.fp32;
    const far = price.cache && amount > price.cache ? price.far * amount : 0;
    return price.byte * amount + far + price.launch;
  }

  /** Returns the precision of all layers if they were all set to one, else null. */
  function uniformType({ explicit, given }) {
    const types = new Set(explicit.values());
    return explicit.size === given.layers.length && types.size === 1 ? given.types[[...types][0]].name : null;
  }

  /** Returns the totals for a precision map {operator: dtype}; without any, those of the report. */
  function mix(data, chosen) {
    const given = data.what_if;
    if (!chosen.size) return base(given);
    const assigned = new Assigned(data.ops, data.tensors, given, chosen);
    const conversions = assigned.converted.filter((each) => !each.isScratch).map(({ value, from, type }) => {
      const count = given.tensors.elements[value] ?? 0;
      const [read, written] = [bytes(count, given.types[from].bits), bytes(count, given.types[type].bits)];
      return { value, from: given.types[from].name, to: given.types[type].name, read, written, moved: read + written };
    });
    const extra = (name) => conversions.reduce((sum, each) => sum + each[name], 0);
    return {
      weights: stored(assigned),
      read: moved(assigned, given.reads) + extra("read"),
      written: moved(assigned, given.writes) + extra("written"),
      peak: given.missing ? null : peak(assigned),
      latency: seconds(assigned, conversions),
      conversions,
    };
  }

  function base(given) {
    const own = given.latency.base;
    return { ...given.base, latency: own ? whole(own) : null, conversions: [] };
  }

  return mix;
})();
