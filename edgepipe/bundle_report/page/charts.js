// Timelines, the map of the memory, and other cuts.
"use strict";

const kLane = { height: 26, gap: 6, label: 70, axis: 22 };
const kCutHeight = 190;
const kNarrow = 600;  // pixels; below, charts have fewer figures

function drawTimelines() {
  const parent = element("timelines");
  const { prediction, measurement } = report;
  const parts = [...timeline(parent, `By the model: a frame every ${milliseconds(prediction.interval_ms)}, ` +
    `${prediction.frames_per_second.toFixed(1)} frames per second`, prediction.timeline)];
  if (measurement) {
    const where = measurement.device ? ` on ${measurement.device}` : "";
    const dropped = measurement.dropped === null ? "" : `${measurement.dropped} dropped, `;
    parts.push(...timeline(parent, `Measured${where}, ${measurement.source}: ` +
      `${measurement.frames_per_second.toFixed(1)} frames per second, ${measurement.delivered} delivered, ` +
      `${dropped}${measurement.failed} failed`, measurement.timeline));
    parts.push(make("p", { class: "note", text: (measurement.trace
      ? `The lower chart shows frames from the middle of ${measurement.trace} as they ran, with their numbers in the run.`
      : "Statistics have no times of single frames: the lower chart is drawn from the stages' measured mean times.") +
      " The two charts have different scales." }));
  }
  parts.push(make("p", { class: "note", text: (measurement?.trace ? "The model's pipeline is full. A chart goes " : "A full pipeline, ") +
    "from the begin of one frame to the end of the last one shown. " +
    "A lane is a thread; a number is a frame. A lane without gaps limits the rate." }));
  parent.replaceChildren(...parts);
}

function timeline(parent, title, found) {
  const width = widthOf(parent);
  const height = found.lanes.length * (kLane.height + kLane.gap) + kLane.axis;
  const scale = (width - kLane.label - 8) / found.ms;
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": title });
  found.lanes.forEach((lane, index) => chart.append(
    svg("text", { x: 0, y: index * (kLane.height + kLane.gap) + 17, text: short(lane, 10) })));
  for (const run of found.runs) {
    const stage = report.stages[run.stage];
    const box = { x: kLane.label + run.begin_ms * scale, y: run.lane * (kLane.height + kLane.gap),
      width: Math.max((run.end_ms - run.begin_ms) * scale, 0.5), height: kLane.height };
    const drawn = svg("g", { class: `run ${stage.device}${run.frame % 2 ? " odd" : ""}` }, [
      svg("title", { text: `${stage.name}, frame ${run.frame}: ${milliseconds(run.begin_ms)} to ${milliseconds(run.end_ms)}` }),
      svg("rect", { ...box, rx: 3 }),
    ]);
    const number = String(run.frame);
    if (box.width > 10 + 8 * number.length) drawn.append(svg("text", { x: box.x + 4, y: box.y + 17, text: number }));
    chart.append(drawn);
  }
  const y = height - kLane.axis + 4;
  const ticks = width < kNarrow ? 2 : 4;
  for (let tick = 0; tick <= ticks; tick++) {
    const ms = tick * found.ms / ticks, x = kLane.label + ms * scale;
    const anchor = tick === ticks ? "end" : tick ? "middle" : "start";
    chart.append(svg("line", { class: "axis", x1: x, x2: x, y1: 0, y2: y }),
      svg("text", { x, y: height - 4, "text-anchor": anchor, text: milliseconds(ms) }));
  }
  return [make("h3", { text: title }), chart];
}

function drawMemory() {
  const { memory } = report;
  const all = Math.max(memory.board_bytes, memory.used_bytes, 1);
  const part = (kind, count, title) => {
    const drawn = make("i", { class: kind, title });
    drawn.style.width = `${100 * count / all}%`;
    return drawn;
  };
  const sum = (kind) => memory.regions.filter((region) => region.kind === kind)
    .reduce((total, region) => total + region.bytes, 0);
  const shared = ["constants", "scratch"].map((kind) => [kind, sum(kind)]);
  const slots = Array.from({ length: memory.slots }, (_, index) =>
    part("slot", memory.slot_bytes, `slot ${index}: ${bytes(memory.slot_bytes)}`));
  const map = make("div", { class: "map", role: "img",
    "aria-label": `${bytes(memory.used_bytes)} of ${bytes(memory.board_bytes)} used` },
    [...shared.map(([kind, count]) => part(kind, count, `${kind}: ${bytes(count)}`)), ...slots]);
  const free = memory.board_bytes - memory.used_bytes;
  const key = (kind, text) => make("span", {}, [make("i", { class: kind }), text]);
  element("memory_map").replaceChildren(map, make("div", { class: "keys" }, [
    ...shared.map(([kind, count]) => key(kind, `${kind} ${bytes(count)}`)),
    key("slot", `${memory.slots} slots of ${bytes(memory.slot_bytes)}`),
    key("free", free >= 0 ? `free ${bytes(free)} of ${bytes(memory.board_bytes)}`
      : `${bytes(-free)} more than the board's ${bytes(memory.board_bytes)}`),
  ]));
  fillTable("memory_table", [
    { name: "region", words: true, value: ({ name }) => name },
    { name: "kind", words: true, value: ({ kind }) => kind },
    { name: "stage", words: true, value: ({ stage }) => stage || "–" },
    { name: "size", value: (region) => region.bytes, show: (region) => bytes(region.bytes) },
    { name: "times", value: (region) => region.in_every_slot ? memory.slots : 1 },
    { name: "together", value: together, show: (region) => bytes(together(region)) },
  ], memory.regions);

  function together(region) {
    return region.bytes * (region.in_every_slot ? memory.slots : 1);
  }
}

function drawCuts() {
  const { built, cuts } = report.what_if;
  const parent = element("cut_chart");
  if (!cuts.length) {
    element("cuts_note").textContent = "No other cut leaves work for the VTA.";
    return;
  }
  const width = widthOf(parent), bottom = kCutHeight - 18;
  const most = Math.min(Math.max(...cuts.map((cut) => cut.interval_ms), built.interval_ms), 4 * built.interval_ms) * 1.05;
  const step = (width - kLane.label) / cuts.length;
  const height = (ms) => Math.min(ms / most, 1) * (bottom - 8);
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${kCutHeight}`, height: kCutHeight,
    role: "img", "aria-label": "time between frames for a cut after each operator; the table below has the figures" });
  cuts.forEach((cut, index) => {
    const kind = cut.interval_ms < built.interval_ms * 0.999 ? " better" : "";
    chart.append(svg("rect", {
      class: `candidate${kind}`, x: kLane.label + index * step, y: bottom - height(cut.interval_ms),
      width: Math.max(step - 1, 1), height: height(cut.interval_ms), on: { click: () => choose(cut.operator, { move: true }) },
    }, [svg("title", { text: `${cut.operator}: ${milliseconds(cut.interval_ms)}, ${cut.stages} stages` })]));
  });
  const line = bottom - height(built.interval_ms);
  chart.append(svg("line", { class: "built", x1: kLane.label, x2: width, y1: line, y2: line }),
    svg("text", { x: 0, y: line + 4, text: milliseconds(built.interval_ms) }),
    svg("text", { x: kLane.label, y: kCutHeight - 4, text: "first operator" }),
    svg("text", { x: width, y: kCutHeight - 4, "text-anchor": "end", text: "last operator" }));
  parent.replaceChildren(chart);
  element("cuts_note").textContent = "Time between frames if the part that runs on ARM first ended after another operator, " +
    `with the best devices for depthwise convolutions as in a build. The line is this bundle, estimated alike: ` +
    `${milliseconds(built.interval_ms)}; the prediction above, ${milliseconds(report.prediction.interval_ms)}, also knows what its ` +
    "programs overlap. Bars end at four times its time. Cuts never change results.";
}

function fillCuts() {
  const { built, cuts } = report.what_if;
  const rows = [{ ...built, label: "(as built)" }, ...cuts.map((cut) => ({ ...cut, label: cut.operator }))];
  fillTable("cut_table", [
    { name: "cut after", words: true, value: ({ label }) => label, link: null },
    { name: "between frames", value: (row) => row.interval_ms, show: (row) => milliseconds(row.interval_ms) },
    { name: "change", value: (row) => row.interval_ms / built.interval_ms - 1, show: (row) => signed(row.interval_ms / built.interval_ms - 1) },
    { name: "one frame", value: (row) => row.serial_ms, show: (row) => milliseconds(row.serial_ms) },
    { name: "on the VTA", value: (row) => row.vta_ms, show: (row) => milliseconds(row.vta_ms) },
    { name: "on ARM", value: (row) => row.arm_ms, show: (row) => milliseconds(row.arm_ms) },
    { name: "stages", value: ({ stages }) => stages },
  ], rows, { name: ({ operator }) => operator });
}
