"use strict";
// plotly with the colors and settings of the page.
sizeup.plot = (() => {
  const { color, onScheme } = sizeup;
  const CONFIG = {
    displaylogo: false, responsive: true, showTips: false, displayNotifier: false,
    // By default plotly offers to upload a chart.
    showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  };
  const PAPER = 680; // width of a printed page in pixels, without margins
  const drawn = [];
  let isPrinting = false;

  function axis(options) {
    return {
      gridcolor: color("faint"), linecolor: color("line"), zeroline: false, tickcolor: color("line"),
      automargin: true, ...options,
    };
  }

  function styled(layout) {
    const axes = Object.fromEntries(Object.entries(layout).filter(([name]) => /^[xy]axis/.test(name)));
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: color("ink") },
      margin: { l: 64, r: 16, t: 36, b: 48 }, // the top margin has the buttons
      hoverlabel: {
        bgcolor: color("raised"), bordercolor: color("line"), align: "left",
        font: { color: color("ink"), size: 12.5, family: getComputedStyle(document.body).fontFamily },
      },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: color("soft"), activecolor: color("ink") },
      legend: { orientation: "h", y: -0.18, x: 0 },
      ...layout,
      ...(isPrinting ? { width: PAPER, height: 0.72 * layout.height, autosize: false } : { autosize: true }),
      ...Object.fromEntries(Object.entries(axes).map(([name, options]) => [name, axis(options)])),
    };
  }

  /** Draw into an element; `build()` returns {traces, layout} and is called again when colors change. */
  function plot(element, build) {
    const draw = () => {
      const { traces, layout } = build();
      return Plotly.react(element, traces, styled(layout), CONFIG);
    };
    drawn.push(draw);
    draw();
    return { redraw: draw };
  }

  /** Ticks of a logarithmic axis: powers of ten, also 2 and 5 times these if the range is small. */
  plot.ticks = (low, high, write) => {
    const steps = high - low < 2.5 ? [1, 2, 5] : [1];
    const values = [];
    for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
      values.push(...steps.map((step) => Number(`${step}e${power}`)).filter((each) => each >= 10 ** low && each <= 10 ** high));
    }
    return { tickmode: "array", tickvals: values, ticktext: values.map(write) };
  };

  /** Returns a text without markup for plotly. */
  plot.plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  onScheme(() => drawn.forEach((draw) => draw()));

  // Print in light colors, with plots as wide as the page.
  const root = document.documentElement;
  let scheme = null;
  addEventListener("beforeprint", () => {
    scheme = root.dataset.theme ?? "";
    root.dataset.theme = "light";
    isPrinting = true;
    drawn.forEach((draw) => draw());
  });
  addEventListener("afterprint", () => {
    if (scheme) root.dataset.theme = scheme;
    else delete root.dataset.theme;
    isPrinting = false;
    drawn.forEach((draw) => draw());
  });
  return plot;
})();
