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
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = canvas.clientHeight * ratio;
  const context = canvas.getContext("2d");
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

function cell(row, text) {
  const made = row.insertCell();
  made.textContent = text;
  return made;
}

// Rates and shares cover the last two seconds, percentiles the whole run.
function showStatistics(now) {
  now.at = performance.now() / 1000;
  before ??= [now];
  while (before.length > 1 && now.at - before[1].at > 2) before.shift();
  const old = before[0];
  const seconds = now.at - old.at;
  before.push(now);
  const { pipeline, source } = now;
  show("network", now.network);
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
  const rows = pipeline.stages.map((stage, index) => {
    const last = old.pipeline.stages[index].busy;
    const busy_ms = stage.busy.count * stage.busy.mean_ms - last.count * last.mean_ms;
    const share = seconds > 0 ? Math.min(1, busy_ms / 1000 / seconds) : 0;
    const row = document.createElement("tr");
    cell(row, stage.name).title = stage.name;
    cell(row, duration(stage.busy.median_ms));
    const busy = cell(row, "");
    const bar = busy.appendChild(document.createElement("span"));
    bar.className = "bar";
    bar.appendChild(document.createElement("i")).style.width = `${share * 100}%`;
    const percent = busy.appendChild(document.createElement("span"));
    percent.className = "share";
    percent.textContent = `${Math.round(share * 100)}%`;
    cell(row, stage.waiting);
    return row;
  });
  element("stages").replaceChildren(...rows);
  showFaults(pipeline.stages);
  drawLatencies();
}

function showFaults(stages) {
  const entries = stages.filter(({ fault }) => fault).map((stage) => {
    const entry = document.createElement("li");
    entry.textContent = `${stage.name}: ${stage.retries} frames run again after a reset, ` +
      `${stage.fallback_frames} on its fallback`;
    entry.appendChild(document.createElement("small")).textContent = stage.fault;
    return entry;
  });
  element("faults").replaceChildren(...entries);
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
