// Fills the page, and draws again what depends on its width.
"use strict";

const kResizeMs = 150;

function fillTiles() {
  const { prediction, measurement, memory } = report;
  const vta = report.stages.filter((stage) => stage.cycles);
  const cycles = vta.reduce((sum, stage) => sum + stage.cycles, 0);
  const ideal = vta.reduce((sum, stage) => sum + stage.ideal_share * stage.cycles, 0);
  const tiles = [
    ["frames per second, by the model", prediction.frames_per_second.toFixed(1)],
    ["between frames", milliseconds(prediction.interval_ms)],
    ["a frame alone", milliseconds(prediction.serial_ms)],
    ["work on the VTA", milliseconds(prediction.vta_ms)],
    [`work on ARM, one of ${prediction.arm_cores} cores`, milliseconds(prediction.arm_ms)],
    ["VTA, share of ideal", cycles ? percent(ideal / cycles) : "–"],
    ["contiguous memory", bytes(memory.used_bytes)],
  ];
  if (measurement) tiles.splice(1, 0, ["frames per second, measured", measurement.frames_per_second.toFixed(1)]);
  element("tiles").replaceChildren(...tiles.map(([name, value]) =>
    make("div", {}, [make("dt", { text: name }), make("dd", { text: value })])));
}

function start() {
  const version = report.version ? `, version ${report.version}` : "";
  element("title").textContent = report.name;
  document.title = `${report.name}: edgepipe report`;
  element("target").textContent = `for ${report.board}${version} · VTA ${report.accelerator} · ` +
    `${(report.clock_hz / 1e6).toFixed(0)} MHz · ${report.operators.length} operators in ${report.stages.length} stages`;
  fillTiles();
  fillOperators();
  fillStages();
  fillCuts();
  fillComparison();
  startGraph();
  drawTimelines();
  drawMemory();
  drawCuts();
  const longest = report.operators.reduce((most, one) => one.ms > most.ms ? one : most, report.operators[0]);
  if (longest) choose(longest.name);
  firstView();
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      element("search").focus();
    }
  });
  let waiting = 0;
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (window.innerWidth === width) return;  // a phone hides its address bar
      width = window.innerWidth;
      drawGraph();
      firstView();
      drawTimelines();
      drawCuts();
    }, kResizeMs);
  });
}

start();
