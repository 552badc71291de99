// The live page's picture: fetches the frame of the newest result and draws what was found over it.
"use strict";

const element = (id) => document.getElementById(id);
const show = (id, text) => { element(id).textContent = text; };
// The page's own address, without a user name and password, which fetch() refuses.
const address = (path) => new URL(path, location.origin + location.pathname).href;
// Hues as `edgepipe run` draws them (edgepipe/report/draw.py), lighter, on a dark or light page.
const colour = (index) => `hsl(${360 * ((index * 0.618034) % 1)} 80% 68%)`;
const kSharpWidth = 832;  // least width of the canvas in pixels, for sharp boxes on small frames

let pending = null;   // the newest result that is not drawn yet
let fetching = false;
let paused = false;
let drawn = null;     // the picture and the result on the canvas

function showPicture(result) {
  pending = result;
  if (!paused) drawNewest();
}

// Draws the newest result, one at a time: a slow connection skips frames and never lags behind.
async function drawNewest() {
  if (fetching) return;
  fetching = true;
  while (pending && !paused) {
    const result = pending;
    pending = null;
    const picture = await fetchPicture(result.frame);
    if (!picture) continue;
    if (!paused) {
      draw(picture, result);
    } else {  // since the fetch began: drawn when the reader goes on
      picture.close();
      pending ??= result;
    }
  }
  fetching = false;
}

// The picture of a frame; null if it is no longer available or the server is gone, which the event
// stream reports.
async function fetchPicture(frame) {
  try {
    const reply = await fetch(address(`picture/${frame}`));
    return reply.ok ? await createImageBitmap(await reply.blob()) : null;
  } catch {
    return null;
  }
}

// ---- drawing

function draw(picture, result) {
  if (drawn && drawn.picture !== picture) drawn.picture.close();
  drawn = { picture, result };
  const least = element("threshold").value / 100;  // 0 hides nothing, not even a negative score
  const confident = (found) => (found ?? []).filter(({ score }) => least === 0 || score >= least);
  const detections = confident(result.detections);
  const canvas = element("picture");
  const enlarged = Math.max(1, Math.ceil(kSharpWidth / picture.width));
  resize(canvas, picture.width * enlarged, picture.height * enlarged);
  // Results are in pixels of the camera's picture, of which this one may be a smaller copy.
  const scale = enlarged / (result.picture?.reduction ?? 1);
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  // Lines and text have the same size on the screen, independent of the canvas's display size.
  const unit = canvas.clientWidth ? canvas.width / canvas.clientWidth : 1;
  drawBoxes(context, detections, scale, unit);
  const dot = ([x, y], index) => {
    context.fillStyle = colour(index);
    context.beginPath();
    context.arc(x * scale, y * scale, 3 * unit, 0, 2 * Math.PI);
    context.fill();
  };
  for (const { points } of detections) (points ?? []).forEach(dot);
  for (const { point, label_index } of confident(result.points)) dot(point, label_index);
  canvas.dataset.frame = result.frame;
  canvas.dataset.boxes = detections.length;
  list(detections, result);
}

function drawBoxes(context, detections, scale, unit) {
  context.font = `600 ${12 * unit}px system-ui, 'DejaVu Sans', sans-serif`;
  context.textBaseline = "middle";
  context.lineWidth = 2 * unit;
  const labels = detections.map(({ box, label, label_index, score }) => {
    const [left, top, right, bottom] = box.map((side) => side * scale);
// A canvas that is given a size is cleared, even if it is the same.
function resize(canvas, width, height) {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}

    const text = `${label} ${Math.round(score * 100)}%`;
    context.strokeStyle = colour(label_index);
    context.strokeRect(left, top, right - left, bottom - top);
    return { left, top, bottom, text, label_index, width: context.measureText(text).width + 8 * unit };
  });
  const places = placeLabels(labels, 17 * unit, context.canvas.width, context.canvas.height);
  labels.forEach(({ text, label_index, width }, index) => {
    if (!places[index]) return;
    const { left, top } = places[index];
    context.fillStyle = colour(label_index);
    context.fillRect(left, top, width, 17 * unit);
    context.fillStyle = "#10141a";
    context.fillText(text, left + 4 * unit, top + 8.5 * unit);
  });
}

// The places of labels ({left, top, bottom} of the box, width of the text), the first ones first:
// above the box, inside its top, below it, or inside further down. No two overlap, all are inside
// the canvas. null where no place is free; the list below the picture has these labels, too.
function placeLabels(labels, height, canvas_width, canvas_height) {
  const placed = [];
  const is_free = (left, top, width) => top >= 0 && top + height <= canvas_height &&
    !placed.some((other) => left < other.left + other.width && other.left < left + width &&
      top < other.top + height && other.top < top + height);
  return labels.map(({ left: box_left, top, bottom, width }) => {
    const left = Math.max(0, Math.min(box_left, canvas_width - width));
    const tops = [top - height, top, bottom];
    for (let inside = top + height; inside + height <= bottom; inside += height) tops.push(inside);
    const free = tops.find((candidate) => is_free(left, candidate, width));
    if (free === undefined) return null;
    placed.push({ left, top: free, width });
    return { left, top: free };
  });
}

function list(detections, result) {
  const counts = new Map();
  for (const { label, label_index } of detections) {
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

// ---- controls

function setPaused(on) {
  paused = on;
  element("pause").textContent = on ? "Continue" : "Pause";
  if (!on) drawNewest();
}

function setThreshold() {
  show("threshold_text", `${element("threshold").value} %`);
  if (drawn) draw(drawn.picture, drawn.result);
}

function saveSnapshot() {
  if (!drawn) return;
  const { frame } = drawn.result;
  element("picture").toBlob((blob) => {
    if (!blob) return;
    const link = document.createElement("a");
    link.download = `${element("network").textContent || "edgepipe"}-frame-${frame}.png`;
    link.href = URL.createObjectURL(blob);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);  // some browsers read it after click()
  });
}

element("pause").addEventListener("click", () => setPaused(!paused));
element("snapshot").addEventListener("click", saveSnapshot);
element("threshold").addEventListener("input", setThreshold);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
  const key = event.key.toLowerCase();
  if (key === "p") setPaused(!paused);
  if (key === "s") saveSnapshot();
});
setThreshold();
