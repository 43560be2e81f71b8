"use strict";
// A table that sorts and filters; only visible rows are in the page.
sizeup.table = (() => {
  const { make, words } = sizeup;
  const ROW = 32; // pixels, as in the style sheet
  const BEYOND = 12; // rows above and below the visible ones
  const PRINTED = 200;

  function compare(left, right) {
    return typeof left === "string" || typeof right === "string"
      ? String(left).localeCompare(String(right), "en", { numeric: true })
      : left - right;
  }

  function classes(column, more = "") {
    const own = [column.number ? "number" : "", column.extra ? "extra" : "", column.tail ? "tail" : ""];
    return [...own, more].filter(Boolean).join(" ") || null;
  }

  /**
   * Columns are {title, value(row), cell(row), number, width, hint, header, extra, tail, early, narrow}: `value` is
   * the sort key (null is last), `cell` the text or element; an `extra` column is not printed; a `tail` column shows
   * the end of a long text. On a narrow screen `early` columns come first, `narrow` rem wide. Rows are numbers from
   * 0. `find(row)` is the text that a filter searches.
   */
  function table(element, { label, columns: allColumns, rows, find, noun = "row", marks = null, limit = null }) {
    const narrow = matchMedia("(max-width: 40rem)").matches;
    const columns = narrow ? [...allColumns.filter((each) => each.early), ...allColumns.filter((each) => !each.early)] : allColumns;
    const width = (column) => (narrow && column.narrow) || column.width;
    const state = { order: Array.from({ length: rows }, (_, row) => row), by: null, down: false, words: [], keep: null };
    const texts = find ? Array.from({ length: rows }, (_, row) => find(row).toLowerCase()) : null;
    const count = make("span", { class: "table-count", role: "status" });
    const filter = make("input", {
      type: "search", class: "grow", placeholder: "Name, op kind or module", "aria-label": `Filter: ${label}`,
      oninput: () => {
        state.words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
        arrange();
      },
    });
    const heads = columns.map((column, index) => head(column, index));
    const body = make("tbody");
    const wide = columns.reduce((sum, column) => sum + width(column), 0);
    const printed = columns.reduce((sum, column) => sum + (column.extra ? 0 : column.width), 0);
    const grid = make("table", { "aria-label": label, "aria-rowcount": rows + 1, style: `min-width:${wide}rem` },
      make("colgroup", {}, ...columns.map((column) => make("col", {
        class: column.extra ? "extra" : null, style: `width:${width(column)}rem;--printed:${(100 * column.width) / printed}%`,
      }))),
      make("thead", {}, make("tr", { "aria-rowindex": 1 }, ...heads)), body);
    const scroll = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${label}, scrolls` }, grid);
    if (limit) scroll.style.maxHeight = limit;
    const controls = make("div", { class: "controls" }, find ? filter : null, count);
    element.append(controls, scroll);

    function head(column, index) {
      const sort = () => {
        state.down = state.by === index ? !state.down : Boolean(column.number);
        state.by = index;
        arrange();
      };
      return make("th", { scope: "col", class: classes(column), "aria-sort": "none" },
        make("button", { type: "button", title: column.hint || `Sort by ${column.title}`, onclick: sort, text: column.title }));
    }

    /** Filter and sort the rows. */
    function arrange() {
      let order = Array.from({ length: rows }, (_, row) => row);
      if (state.words.length) order = order.filter((row) => state.words.every((word) => texts[row].includes(word)));
      if (state.keep) order = order.filter(state.keep);
      if (state.by !== null) {
        const value = columns[state.by].value;
        const keys = new Map(order.map((row) => [row, value(row)]));
        const sign = state.down ? -1 : 1;
        order.sort((left, right) => {
          const [a, b] = [keys.get(left) ?? null, keys.get(right) ?? null];
          if (a === null || b === null) return (a === null) - (b === null) || left - right;
          return sign * compare(a, b) || left - right;
        });
      }
      state.order = order;
      heads.forEach((each, index) => {
        each.setAttribute("aria-sort", state.by !== index ? "none" : state.down ? "descending" : "ascending");
      });
      count.textContent = order.length === rows ? words.plural(rows, noun) : `${words.grouped(order.length)} of ${words.plural(rows, noun)}`;
      grid.setAttribute("aria-rowcount", order.length + 1);
      scroll.scrollTop = 0;
      draw(true);
    }

    let drawn = "";
    function draw(anew = false, everything = false) {
      // Without rows the box is lower than its final height.
      const height = Math.max(scroll.clientHeight, parseFloat(getComputedStyle(scroll).maxHeight) || 600);
      const first = everything ? 0 : Math.max(0, Math.floor(scroll.scrollTop / ROW) - BEYOND);
      const last = everything
        ? Math.min(PRINTED, state.order.length)
        : Math.min(state.order.length, Math.ceil((scroll.scrollTop + height) / ROW) + BEYOND);
      const key = `${first}:${last}`;
      if (!anew && key === drawn) return;
      drawn = key;
      const lines = state.order.slice(first, last).map((row, place) => line(row, first + place));
      const rest = state.order.length - last;
      body.replaceChildren(spacer(everything ? 0 : first), ...lines, everything && rest ? moreRows(rest) : spacer(rest));
    }

    function line(row, place) {
      const cells = columns.map((column) => {
        const shown = column.cell(row);
        const text = typeof shown === "string" ? shown : null;
        const attributes = {
          class: classes(column, shown === "?" ? "unknown" : ""),
          title: text && text.length > 12 ? text : null,
        };
        if (column.header) attributes.scope = "row";
        return make(column.header ? "th" : "td", attributes, column.tail && text ? make("bdi", { text }) : shown);
      });
      return make("tr", { "aria-rowindex": place + 2, "data-row": row, class: marks ? marks(row) : null }, ...cells);
    }

    function spacer(count) {
      return make("tr", { class: "spacer", "aria-hidden": "true" },
        make("td", { colspan: columns.length, style: `height:${count * ROW}px` }));
    }

    function moreRows(count) {
      return make("tr", {}, make("td", { colspan: columns.length }, `and ${words.grouped(count)} more; a .csv report has all`));
    }

    let waiting = false;
    scroll.addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        draw();
      });
    });
    addEventListener("resize", () => draw());
    addEventListener("beforeprint", () => draw(true, true));
    addEventListener("afterprint", () => draw(true));
    arrange();

    return {
      redraw: () => draw(true),
      /** Keep only the rows for which a function returns true; null keeps all. */
      keep(choose) {
        state.keep = choose;
        arrange();
      },
      /** Scroll to a row. */
      show(row) {
        const place = state.order.indexOf(row);
        if (place < 0) return;
        scroll.scrollTop = Math.max(0, (place - 3) * ROW);
        draw(true);
      },
    };
  }

  return table;
})();
