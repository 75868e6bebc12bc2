"use strict";
// Charts, drawn by uPlot from the numbers that stand beside them.

const DASHES = [8, 4];
const charts = [];

function drawCharts() {
  for (const chart of charts.splice(0)) chart.destroy();
  for (const figure of document.querySelectorAll("figure.chart")) {
    const told = JSON.parse(figure.dataset.chart);
    const inks = [colours.accent, colours.series1, colours.rule3, colours.soft];
    const size = () => ({ width: figure.clientWidth - 20, height: Math.min(300, Math.max(200, figure.clientWidth * 0.5)) });
    const show = value => (value == null ? "–" : Number(value.toPrecision(5)).toLocaleString("en"));
    const axis = label => ({ label, stroke: colours.soft, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line }, labelSize: 22, size: 44 });
    const series = told.series.map(({ name, line }, index) => ({
      label: name, stroke: inks[index % inks.length], width: line ? 2 : 0, dash: line === "dashed" ? DASHES : undefined,
      paths: line ? undefined : () => null, value: (_, value) => show(value),
      points: line ? { show: line !== "dashed" && told.x.length < 60 } : { show: true, size: 7, fill: inks[index % inks.length] },
    }));
    const chart = new uPlot({
      ...size(),
      scales: { x: { time: false }, y: told.log ? { distr: 3 } : { range: (_, low, high) => [Math.min(0, low), high * 1.08 || 1] } },
      axes: [{ ...axis(told.across), incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] },
        { ...axis(), size: 64, values: (_, ticks) => ticks.map(tick => (tick === null ? "" : Number(tick.toPrecision(3)).toLocaleString("en", { notation: Math.abs(tick) >= 1e5 ? "compact" : "standard", maximumSignificantDigits: 3 }))) }],
      series: [{ label: told.across, value: (_, value) => show(value) }, ...series],
    }, [told.x, ...told.series.map(({ values }) => values)], figure);
    charts.push(chart);
    new ResizeObserver(() => { if (Math.abs(figure.clientWidth - 20 - chart.width) > 1) chart.setSize(size()); }).observe(figure);
  }
}
