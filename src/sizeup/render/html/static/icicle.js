"use strict";
// Cost by module: one row of boxes per depth, each as wide as its share; a click opens one.
(() => {
  const { data, make, words, model } = sizeup;
  const element = document.getElementById("icicle");
  if (!element) return;
  const DEPTHS = 6;
  const [LETTERS, LETTER, PADDING] = [5, 8, 12]; // least letters of a name, pixels per letter and of padding
  const NARROWEST = 0.0015; // share of the width below which boxes are drawn as one
  const { ops } = data;
  const MEASURES = {
    macs: { label: "MACs", of: (op) => ops.macs[op] ?? 0, write: words.count },
    params: { label: "Parameters", of: (op) => ops.params[op], write: words.count },
    bytes: { label: "Bytes moved", of: (op) => (ops.read[op] ?? 0) + (ops.written[op] ?? 0), write: words.size },
    time: { label: "Time", of: (op) => (ops.seconds ? ops.seconds[op] : 0), write: words.duration },
  };

  function node(name, path, parent) {
    return { name, path, parent, children: new Map(), op: null, count: 0, macs: 0, params: 0, bytes: 0, time: 0 };
  }

  function pathOf(scope) {
    return scope.split(scope.includes("/") ? "/" : ".").filter(Boolean);
  }

  const root = node(data.model.name, data.model.name, null);
  function add(leaf, amounts) {
    for (let each = leaf; each; each = each.parent) {
      each.count += amounts.count;
      for (const name of Object.keys(MEASURES)) each[name] += amounts[name];
    }
  }

  for (let op = 0; op < model.count; op += 1) {
    let at = root;
    for (const part of pathOf(model.scope(op))) {
      if (!at.children.has(part)) at.children.set(part, node(part, at === root ? part : `${at.path}.${part}`, at));
      at = at.children.get(part);
    }
    const leaf = node(model.kind(op), model.name(op), at);
    leaf.op = op;
    at.children.set(`#${op}`, leaf);
    const amounts = { count: 1 };
    for (const [name, { of }] of Object.entries(MEASURES)) amounts[name] = of(op);
    add(leaf, amounts);
  }
  if (ops.unused.params) {
    const leaf = node(ops.unused.label, ops.unused.label, root);
    root.children.set("unused", leaf);
    add(leaf, { count: 0, macs: 0, params: ops.unused.params, bytes: 0, time: 0 });
  }

  const usable = Object.keys(MEASURES).filter((name) => root[name] > 0);
  if (!usable.length) {
    element.append(make("p", { text: "No cost to show." }));
    return;
  }
  const state = { at: root, by: usable.includes("time") ? "time" : usable[0] };
  const buttons = new Map();
  const trail = make("nav", { class: "trail", "aria-label": "Path of the module" });
  const picture = make("div", { class: "icicle" });
  const controls = make("div", { class: "controls", role: "group", "aria-label": "Quantity of the width" });
  for (const name of usable) {
    const button = make("button", { type: "button", onclick: () => { state.by = name; draw(); }, text: MEASURES[name].label });
    buttons.set(name, button);
    controls.append(button);
  }
  element.append(controls, trail, picture);

  function hoverText(each) {
    const whole = root[state.by];
    const amount = MEASURES[state.by].write(each[state.by]);
    const share = whole ? `, ${words.share(each[state.by], whole)} of the model` : "";
    const inside = each.op === null && each.count ? `, ${words.plural(each.count, "operator")}` : "";
    return `${each.path}: ${amount}${share}${inside}`;
  }

  function open(each) {
    if (each.op !== null) {
      sizeup.showOperator(each.op);
      return;
    }
    if (!each.children.size) return;
    state.at = each;
    draw();
    trail.querySelector("[aria-current]").focus();
  }

  /** Whether a name, or enough of its letters, fits a width. */
  function readable(name, width) {
    return width * picture.clientWidth > PADDING + LETTER * Math.min(name.length, LETTERS);
  }

  function box(each, left, width, depth) {
    const kind = each.op !== null ? "leaf" : each.children.size ? "" : "rest";
    return make("button", {
      type: "button", class: `box d${depth % 4} ${kind}`, title: hoverText(each), "aria-label": hoverText(each),
      style: `left:${100 * left}%;width:${100 * width}%;top:${depth * 2}rem`, onclick: () => open(each),
    }, make("span", { text: readable(each.name, width) ? each.name : "" }));
  }

  /** Add the boxes of one level and all below; adjacent slivers become one box that does not open. */
  function level(each, left, width, depth, boxes) {
    if (depth >= DEPTHS) return depth;
    let deepest = depth;
    let sliver = null;
    const flush = () => {
      if (sliver && sliver.width > NARROWEST / 2) {
        boxes.push(make("div", {
          class: "box rest", title: `${words.grouped(sliver.count)} more`, style: `left:${100 * sliver.left}%;width:${100 * sliver.width}%;top:${depth * 2}rem`,
        }));
      }
      sliver = null;
    };
    for (const child of each.children.values()) {
      const share = each[state.by] ? (width * child[state.by]) / each[state.by] : 0;
      if (!share) continue;
      if (share < NARROWEST) {
        sliver ??= { left, width: 0, count: 0 };
        sliver.width += share;
        sliver.count += 1;
      } else {
        flush();
        boxes.push(box(child, left, share, depth));
        deepest = Math.max(deepest, level(child, left, share, depth + 1, boxes));
      }
      left += share;
    }
    flush();
    return deepest;
  }

  function draw() {
    for (const [name, button] of buttons) button.setAttribute("aria-pressed", String(name === state.by));
    const boxes = [box(state.at, 0, 1, 0)];
    const depth = level(state.at, 0, 1, 1, boxes);
    picture.style.height = `${(depth + 1) * 2}rem`;
    picture.replaceChildren(...boxes);
    const chain = [];
    for (let each = state.at; each; each = each.parent) chain.unshift(each);
    trail.replaceChildren(...chain.map((each) => make("button", {
      type: "button", "aria-current": each === state.at ? "true" : null, onclick: () => open(each), text: each.name,
    })));
  }

  picture.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.at.parent) open(state.at.parent);
  });
  addEventListener("resize", draw);
  draw();
})();
