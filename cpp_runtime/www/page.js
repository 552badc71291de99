// The live page's numbers: follows /events and shows statistics; picture.js shows the results.
"use strict";

const kHistory = 240;  // most frames in the latency graph
const kLeastHistory = 40;  // minimum width of the graph in frames, so that the first few do not jump
const kRetryMs = 5000;  // after a refusal, e.g. if there are too many readers

const kMicroseconds = 0.1;  // in milliseconds: shorter times are shown in microseconds

let before = null;   // statistics of the last two seconds
const latencies = [];

// ---- statistics

function drawLatencies() {
  const canvas = element("latency");
  const ratio = window.devicePixelRatio || 1;
  resize(canvas, Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio));
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  const most = Math.max(...latencies, 1e-3) * 1.35;  // room for the scale above the line
  const last = Math.max(latencies.length, kLeastHistory) - 1;
  const style = getComputedStyle(canvas);
  const themed = (name) => style.getPropertyValue(`--${name}`);
  context.strokeStyle = themed("accent");
  context.lineWidth = 1.5 * ratio;
  context.beginPath();
  latencies.forEach((value, index) =>
    context.lineTo(index / last * canvas.width, canvas.height * (1 - value / most)));
  context.stroke();
  context.strokeStyle = themed("line");
  context.lineWidth = ratio;
  context.strokeRect(-ratio, -ratio, canvas.width + 2 * ratio, canvas.height + ratio / 2);
  context.fillStyle = themed("dim");
  context.font = `${11 * ratio}px system-ui, sans-serif`;
  context.fillText(duration(most), 2 * ratio, 11 * ratio);
}

function duration(ms) {
  if (ms < kMicroseconds) return `${(ms * 1000).toFixed(0)} µs`;
  return `${ms.toFixed(ms < 100 ? 2 : 0)} ms`;
}

// Rates and shares cover the last two seconds, percentiles the whole run.
function showStatistics(now) {
  now.at = performance.now() / 1000;
  if (calm.matches && before && now.at - before.at(-1).at < kCalmMs / 1000) return;
  before ??= [now];
  while (before.length > 1 && now.at - before[1].at > 2) before.shift();
  const old = before[0];
  const seconds = now.at - old.at;
  before.push(now);
  const { pipeline, source } = now;
  show("network", now.network);
  document.title = `${now.network} – edgepipe`;
  show("source", source.description);
  if (seconds > 0.5) show("rate", ((pipeline.delivered - old.pipeline.delivered) / seconds).toFixed(1));
  show("frame", pipeline.delivered);
  show("dropped", source.dropped + source.missed);
  const { latency } = pipeline;
  const short = latency.median_ms < kMicroseconds;
  const places = latency.p99_ms < 100 && !short ? 2 : 0;
  for (const name of ["median", "p95", "p99"]) {
    show(name, (latency[`${name}_ms`] * (short ? 1000 : 1)).toFixed(places));
    show(`${name}_unit`, short ? " µs" : " ms");
  }
  show("in_flight", pipeline.in_flight);
  show("slots", pipeline.slots);
  show("accounting", `${pipeline.submitted} submitted = ${pipeline.delivered} delivered + ` +
    `${pipeline.dropped} dropped + ${pipeline.failed} failed + ${pipeline.in_flight} in flight` +
    (source.silences ? `; source silent ${source.silences} ×` : "") +
    (source.reconnects ? `; source opened again ${source.reconnects} ×` : "") +
    (source.outage_s ? `; no picture for ${source.outage_s.toFixed(0)} s (${source.fault})` : ""));
  const shares = pipeline.stages.map(({ busy }, index) => {
    const last = old.pipeline.stages[index].busy;
    const busy_ms = busy.count * busy.mean_ms - last.count * last.mean_ms;
    return seconds > 0 ? Math.min(1, busy_ms / 1000 / seconds) : 0;
  });
  showStages(pipeline.stages, shares);
  showFaults(pipeline.stages);
  showBoard(now.board);
  drawLatencies();
}

function showStages(stages, shares) {
  fill(element("stages"), "tr", stages, (row, stage) => {
    if (row.cells.length === 0) addCells(row);
    const [name, time, busy, waiting] = row.cells;
    setText(name, stage.name);
    name.title = stage.name;
    setText(time, duration(stage.busy.median_ms));
    const share = shares[row.sectionRowIndex];
    busy.querySelector("i").style.width = `${share * 100}%`;
    setText(busy.querySelector(".share"), `${Math.round(share * 100)}%`);
    setText(waiting, stage.waiting);
  });
}

function addCells(row) {
  const name = row.appendChild(document.createElement("th"));
  name.scope = "row";
  const [, busy] = [row.insertCell(), row.insertCell(), row.insertCell()];
  const bar = busy.appendChild(document.createElement("span"));
  bar.className = "bar";
  bar.appendChild(document.createElement("i"));
  busy.appendChild(document.createElement("span")).className = "share";
}

function showFaults(stages) {
  const faulty = stages.filter(({ fault }) => fault);
  fill(element("faults"), "li", faulty, (entry, stage) => {
    if (!entry.firstElementChild) entry.append("", document.createElement("small"));
    const text = `${stage.name}: ${stage.retries} frames run again after a reset, ` +
      `${stage.fallback_frames} on its fallback`;
    if (entry.firstChild.data !== text) entry.firstChild.data = text;
    setText(entry.lastChild, stage.fault);
  });
  say("faults", faulty.map(({ name }) => `${name}: the accelerator had a fault`).join(", "));
}

// The hottest sensor is the figure; the text below has all of them.
function showBoard({ cores, processor_load, program_load, temperatures }) {
  const figure = (name, value, unit) => {
    show(name, value ?? "–");
    show(`${name}_unit`, value === null ? "" : unit);
  };
  const percent = (load) => load === null ? null : Math.round(load * 100);
  const celsius = temperatures.map((sensor) => sensor.celsius);
  figure("temperature", celsius.length ? Math.max(...celsius).toFixed(1) : null, " °C");
  figure("processor", percent(processor_load), " %");
  figure("program", percent(program_load), " %");
  const sensors = temperatures.map(({ type, celsius }) => `${type} ${celsius.toFixed(1)} °C`);
  show("sensors", `CPU of ${cores} ${cores === 1 ? "core" : "cores"}; ` +
    (sensors.join(", ") || "the system shows no temperature"));
}

// ---- events

function setConnection(text, on) {
  show("connection", text);
  element("connection").classList.toggle("off", !on);
}

function showResult(result) {
  showPicture(result);
  latencies.push(result.latency_ms);
  if (latencies.length > kHistory) latencies.shift();
}

function connect() {
  const events = new EventSource(address("events"));
  events.onopen = () => { before = null; setConnection("live", true); };
  events.onerror = () => {
    setConnection("no connection", false);
    // The browser tries again by itself, except after a refusal.
    if (events.readyState === EventSource.CLOSED) explainRefusal();
  };
  events.addEventListener("statistics", (event) => showStatistics(JSON.parse(event.data)));
  events.addEventListener("result", (event) => showResult(JSON.parse(event.data)));
}

async function explainRefusal() {
  setTimeout(connect, kRetryMs);
  try {
    const reply = await fetch(address("events"));
    if (reply.ok) reply.body.cancel();
    else setConnection(await reply.text(), false);
  } catch {
    // The server is gone.
  }
}

connect();
