// The live page's picture: fetches the frame of the newest result and draws what was found over it.
"use strict";

const element = (id) => document.getElementById(id);
// Unchanged text stays untouched, so that a screen reader keeps its place.
const setText = (node, text) => { if (node.textContent !== String(text)) node.textContent = text; };
const show = (id, text) => setText(element(id), text);
// The page's own address, without a user name and password, which fetch() refuses.
const address = (path) => new URL(path, location.origin + location.pathname).href;
// Hues as `edgepipe run` draws them (edgepipe/report/draw.py), lighter, on a dark or light page.
const colour = (index) => `hsl(${360 * ((index * 0.618034) % 1)} 80% 68%)`;
const kSharpWidth = 832;  // least width of the canvas in pixels, for sharp boxes on small pictures
// Readers who want less motion get one picture per second.
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const kCalmMs = 1000;

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
      if (calm.matches) await new Promise((done) => setTimeout(done, kCalmMs));
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

// A canvas that is given a size is cleared, even if it is the same.
function resize(canvas, width, height) {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}

function drawBoxes(context, detections, scale, unit) {
  context.font = `600 ${12 * unit}px system-ui, 'DejaVu Sans', sans-serif`;
  context.textBaseline = "middle";
  context.lineWidth = 2 * unit;
  const labels = detections.map(({ box, label, label_index, score }) => {
    const [left, top, right, bottom] = box.map((side) => side * scale);
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
    context.fillStyle = "#000";
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
    ({ label_index, text: `${label} × ${count}`, said: `${label}: ${count}` }));
  const percent = (share) => `${(share * 100).toFixed(1)}%`;
  const shares = [
    ...(result.classes ?? []).map((found) => ({ ...found, share: found.probability })),
    ...(result.areas ?? []),
  ].map(({ label, label_index, share }) =>
    ({ label_index, text: `${label} ${percent(share)}`, said: label }));
  const texts = result.text ? [{ label_index: 0, text: result.text, said: result.text }] : [];
  const all = [...entries, ...shares, ...texts];
  fill(element("found"), "li", all, (item, { label_index, text }) => {
    setText(item, text);
    item.style.setProperty("--mark", colour(label_index));
  });
  keepHeight(element("found"));
  // Of shares, which change with every picture, only what is largest.
  const said = [...entries, ...shares.slice(0, 1), ...texts].map((entry) => entry.said);
  say("results", said.join(", ") || "no results");
}

// Keeps the room for the most lines so far, so that what is below does not jump.
function keepHeight(node) {
  const height = node.clientHeight;
  if (height > parseFloat(node.style.minHeight || 0)) node.style.minHeight = `${height}px`;
}
window.addEventListener("resize", () => { element("found").style.minHeight = ""; });

// Makes as many children as there are values, and sets each of them.
function fill(parent, tag, values, set) {
  while (parent.children.length > values.length) parent.lastElementChild.remove();
  while (parent.children.length < values.length) parent.append(document.createElement(tag));
  values.forEach((value, index) => set(parent.children[index], value));
}
