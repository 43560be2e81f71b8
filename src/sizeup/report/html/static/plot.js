"use strict";
// plotly in the colours and with the manners of the page.
sizeup.plot = (() => {
  const { colour, onScheme } = sizeup;
  const CONFIG = {
    displaylogo: false, responsive: true, showTips: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "sendDataToCloud"],
  };
  const drawn = [];

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
      margin: { l: 64, r: 16, t: 16, b: 48 },
      hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("line"), font: { color: colour("ink") }, align: "left" },
      legend: { orientation: "h", y: -0.18, x: 0 },
      ...layout,
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

  /** A text in which plotly finds no markup: names in a model may look like it. */
  plot.plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  onScheme(() => drawn.forEach((draw) => draw()));
  addEventListener("beforeprint", () => drawn.forEach((draw) => draw()));
  return plot;
})();
