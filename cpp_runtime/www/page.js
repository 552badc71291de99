// The live page: follows /events, fetches the picture of each result and draws its boxes over it.
"use strict";

const element = (id) => document.getElementById(id);
const show = (id, text) => { element(id).textContent = text; };
// The page's own address, without a user name and password, which fetch() refuses.
const address = (path) => new URL(path, location.origin + location.pathname).href;
const colour = (index) => `hsl(${(index * 47 + 160) % 360} 80% 68%)`;
const kHistory = 240;  // most frames in the latency graph
const kLeastHistory = 40;  // minimum width of the graph in frames, so that the first few do not jump
const kRetryMs = 5000;  // after a refusal, e.g. if there are too many readers

let pending = null;  // the newest result that is not drawn yet
let drawing = false;
let before = null;   // statistics of the last two seconds
const latencies = [];

// ---- picture and boxes

// Draws the newest result, one at a time: a slow connection skips frames and never lags behind.
async function drawNewest() {
  if (drawing) return;
  drawing = true;
  while (pending) {
    const result = pending;
    pending = null;
    try {
      const reply = await fetch(address(`picture/${result.frame}`));
      if (reply.ok) draw(await createImageBitmap(await reply.blob()), result);
    } catch {
      // The server is gone; the event stream reports it.
    }
  }
  drawing = false;
}

function draw(picture, result) {
  const canvas = element("picture");
  const scale = Math.max(1, Math.ceil(832 / picture.width));  // sharp boxes on small frames
  canvas.width = picture.width * scale;
  canvas.height = picture.height * scale;
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  picture.close();
  // Lines and text have the same size on the screen, independent of the canvas's display size.
  const unit = canvas.clientWidth ? canvas.width / canvas.clientWidth : 1;
  const text_height = 17 * unit;
  context.font = `600 ${12 * unit}px system-ui, 'DejaVu Sans', sans-serif`;
  context.textBaseline = "middle";
  context.lineWidth = 2 * unit;
  const found = result.detections ?? [];
  for (const { box, label, label_index, score } of found) {
    const [left, top, right, bottom] = box.map((side) => side * scale);
    const text = `${label} ${Math.round(score * 100)}%`;
    const width = context.measureText(text).width + 8 * unit;
    const text_top = top >= text_height ? top - text_height : top;
    const text_left = Math.max(0, Math.min(left - unit, canvas.width - width));
    context.strokeStyle = context.fillStyle = colour(label_index);
    context.strokeRect(left, top, right - left, bottom - top);
    context.fillRect(text_left, text_top, width, text_height);
    context.fillStyle = "#10141a";
    context.fillText(text, text_left + 4 * unit, text_top + text_height / 2);
  }
  const dot = ([x, y], index) => {
    context.fillStyle = colour(index);
    context.beginPath();
    context.arc(x * scale, y * scale, 3 * unit, 0, 2 * Math.PI);
    context.fill();
  };
  for (const { points } of found) (points ?? []).forEach(dot);
  for (const { point, label_index } of result.points ?? []) dot(point, label_index);
  canvas.dataset.frame = result.frame;
  canvas.dataset.boxes = found.length;
  list(result);
}

function list(result) {
  const counts = new Map();
  for (const { label, label_index } of result.detections ?? []) {
    counts.set(label, { label_index, count: (counts.get(label)?.count ?? 0) + 1 });
  }
  const entries = [...counts].map(([label, { label_index, count }]) =>
    ({ label_index, text: `${label} × ${count}` }));
  for (const { label, label_index, probability } of result.classes ?? []) {
    entries.push({ label_index, text: `${label} ${(probability * 100).toFixed(1)}%` });
  }
  for (const { label, label_index, share } of result.areas ?? []) {
    entries.push({ label_index, text: `${label} ${(share * 100).toFixed(1)}%` });
  }
  if (result.text) entries.push({ label_index: 0, text: result.text });
  element("found").replaceChildren(...entries.map(({ label_index, text }) => {
    const item = document.createElement("li");
    item.textContent = text;
    item.style.setProperty("--mark", colour(label_index));
    return item;
  }));
}

// ---- statistics

function drawLatencies() {
  const canvas = element("latency");
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = canvas.clientHeight * ratio;
  const context = canvas.getContext("2d");
  const most = Math.max(...latencies, 1e-3) * 1.35;  // room for the scale above the line
  const last = Math.max(latencies.length, kLeastHistory) - 1;
  context.strokeStyle = "#4fc3a1";
  context.lineWidth = 1.5 * ratio;
  context.beginPath();
  latencies.forEach((value, index) =>
    context.lineTo(index / last * canvas.width, canvas.height * (1 - value / most)));
  context.stroke();
  context.strokeStyle = "#2c3541";
  context.lineWidth = ratio;
  context.strokeRect(-ratio, -ratio, canvas.width + 2 * ratio, canvas.height + ratio / 2);
  context.fillStyle = "#8d99a9";
  context.font = `${11 * ratio}px system-ui, sans-serif`;
  context.fillText(`${most.toFixed(most < 10 ? 2 : 0)} ms`, 2 * ratio, 11 * ratio);
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
  const places = pipeline.latency.p99_ms < 100 ? 2 : 0;
  for (const name of ["median", "p95", "p99"]) {
    show(name, pipeline.latency[`${name}_ms`].toFixed(places));
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
    cell(row, stage.busy.median_ms.toFixed(stage.busy.median_ms < 100 ? 2 : 0));
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
  pending = result;
  latencies.push(result.latency_ms);
  if (latencies.length > kHistory) latencies.shift();
  drawNewest();
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
