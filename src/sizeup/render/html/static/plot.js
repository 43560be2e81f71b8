"use strict";
// plotly in the colours and with the manners of the page.
sizeup.plot = (() => {
  const { colour, onScheme } = sizeup;
  const CONFIG = {
    displaylogo: false, responsive: true, showTips: false, displayNotifier: false,
    // plotly offers to send a chart to its makers, as it comes; a report stays where it is.
    showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  };
  const PAPER = 680; // pixels between the margins of a sheet, upright
  const drawn = [];
  let isPrinting = false;

  function axis(given) {
    return {
      gridcolor: colour("faint"), linecolor: colour("line"), zeroline: false, tickcolor: colour("line"),
      automargin: true, ...given,
    };
  }

  function dressed(layout) {
    const axes = Object.fromEntries(Object.entries(layout).filter(([name]) => /^[xy]axis/.test(name)));
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: colour("ink") },
      margin: { l: 64, r: 16, t: 36, b: 48 }, // the buttons above lie in the upper one
      hoverlabel: {
        bgcolor: colour("raised"), bordercolor: colour("line"), align: "left",
        font: { color: colour("ink"), size: 12.5, family: getComputedStyle(document.body).fontFamily },
      },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("ink") },
      legend: { orientation: "h", y: -0.18, x: 0 },
      ...layout,
      ...(isPrinting ? { width: PAPER, height: 0.72 * layout.height, autosize: false } : { autosize: true }),
      ...Object.fromEntries(Object.entries(axes).map(([name, given]) => [name, axis(given)])),
    };
  }

  /** Draw into an element; `build()` gives {traces, layout} and is asked again when the colours change. */
  function plot(place, build) {
    const draw = () => {
      const { traces, layout } = build();
      return Plotly.react(place, traces, dressed(layout), CONFIG);
    };
    drawn.push(draw);
    draw();
    return { redraw: draw };
  }

  /** Ticks of a logarithmic axis that say what they mean: 1, 2 and 5 of each decade where few are in sight. */
  plot.ticks = (low, high, write) => {
    const steps = high - low < 2.5 ? [1, 2, 5] : [1];
    const values = [];
    for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
      values.push(...steps.map((step) => Number(`${step}e${power}`)).filter((each) => each >= 10 ** low && each <= 10 ** high));
    }
    return { tickmode: "array", tickvals: values, ticktext: values.map(write) };
  };

  /** A text in which plotly finds no markup: names in a model may look like it. */
  plot.plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  onScheme(() => drawn.forEach((draw) => draw()));

  // On paper colours are light whatever the screen has, and pictures as wide as the sheet.
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
