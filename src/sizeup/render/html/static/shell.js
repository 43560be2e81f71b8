"use strict";
// Shared by all pages: data, creation of elements, formats of amounts, and the color scheme.
const sizeup = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);

  /** Returns an element with attributes and children; a child that is not an element becomes text, never HTML. */
  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (name === "text") node.textContent = value;
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((each) => each !== null && each !== undefined));
    return node;
  }

  /** Returns a number with that many decimals; ties round to even, as in Python. */
  function fixed(value, digits) {
    const exact = value.toFixed(60);
    const end = exact.indexOf(".") + 1 + digits;
    if (!/^50*$/.test(exact.slice(end))) return value.toFixed(digits);
    const lower = exact.slice(0, digits ? end : end - 1);
    return Number(lower.at(-1)) % 2 ? value.toFixed(digits) : lower;
  }

  /** Returns a number with that many significant digits, without trailing zeros. */
  function significant(value, digits) {
    const power = Number(value.toExponential(digits - 1).split("e")[1]);
    return String(Number(fixed(value, Math.min(Math.max(digits - 1 - power, 0), 50))));
  }

  function grouped(value) {
    return fixed(value, 0).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  }

  function scaled(value, step, suffixes) {
    let size = value;
    let index = 0;
    // 999.5 would print as "1000": move on before rounding does.
    while (Math.abs(size) >= step * 0.9995 && index < suffixes.length - 1) {
      size /= step;
      index += 1;
    }
    if (index === 0) return (Number.isInteger(value) ? grouped(value) : significant(value, 4)) + suffixes[0];
    const digits = Math.abs(size) < 9.995 ? 2 : Math.abs(size) < 99.95 ? 1 : 0;
    return (digits ? fixed(size, digits) : grouped(size)) + suffixes[index];
  }

  /** The formats of all other outputs of sizeup. */
  const words = {
    grouped,
    count: (value) => scaled(value, 1000, ["", " k", " M", " G", " T", " P", " E"]),
    size: (value) => scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]),
    duration(seconds) {
      for (const [scale, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) {
        if (seconds >= 0.9995 * scale) {
          const value = seconds / scale;
          return (value < 999.5 ? significant(value, 3) : grouped(value)) + " " + unit;
        }
      }
      return significant(seconds * 1e9, 3) + " ns";
    },
    rate: (value) => (value < 999.5 ? significant(value, 3) : grouped(value)),
    money(amount, currency) {
      const text = amount >= 0.995 ? fixed(amount, 2).replace(/\B(?=(\d{3})+\.)/g, ",") : significant(amount, 3);
      return currency ? `${text} ${currency}` : text;
    },
    share: (part, total) => (total ? fixed(100 * part / total, 1) + " %" : ""),
    plural: (count, word, plural = `${word}s`) => `${grouped(count)} ${count === 1 ? word : plural}`,
  };

  const schemeChanged = [];
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;

  function isDark() {
    return (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  }

  function applyScheme() {
    const button = document.getElementById("theme");
    if (button) {
      button.textContent = isDark() ? "Light colors" : "Dark colors";
    }
    schemeChanged.forEach((each) => each());
  }

  function toggleScheme() {
    root.dataset.theme = isDark() ? "light" : "dark";
    applyScheme();
  }

  system.addEventListener("change", applyScheme);
  document.getElementById("theme")?.addEventListener("click", toggleScheme);
  document.addEventListener("DOMContentLoaded", applyScheme);

  const probe = make("span", { hidden: true });
  document.body.append(probe);

  /** Returns a color of the style sheet in the current scheme. */
  function color(name) {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  }

  return { data, make, words, color, isDark, onScheme: (call) => schemeChanged.push(call) };
})();
