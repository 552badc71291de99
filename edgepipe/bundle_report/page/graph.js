// The network as a graph: stages as bands, cuts between them, zoom, movement, search, keyboard.
"use strict";

const kNode = { width: 176, height: 46 };
const kPitch = { x: 196, y: 74 };  // from one node, and one row, to the next
const kColumnGap = 70;
const kBandPadding = 14;
const kLabelWidth = 118;  // left of a column's operators, for the names of its stages
const kMostColumns = 10;
const kZoom = { least: 0.03, most: 4, step: 1.3, most_fit: 1.4, readable: 0.3, first: 0.6 };
const kDragPixels = 4;  // a pointer that moves less is a click

const operators = new Map(report.operators.map((operator) => [operator.name, operator]));
const readers = new Map(report.operators.map((operator) => [operator.name, []]));
for (const operator of report.operators) {
  for (const name of operator.inputs) readers.get(name)?.push(operator.name);
}

const view = { x: 0, y: 0, scale: 1 };
const places = new Map();  // of nodes: centre and element
let extent = { left: 0, top: 0, right: 1, bottom: 1 };
let chosen = "";
let matches = [];

// ---- drawing

/// Folds the rows into columns so that they fill the view best: `perColumn` rows, left side and
/// width of each column. Columns are as wide as what is in them.
function foldRows(width, height) {
  const { nodes, edges, rows } = report.layout;
  const ranges = Array.from({ length: rows }, () => ({ left: Infinity, right: -Infinity }));
  const include = (row, x, half) => {
    ranges[row].left = Math.min(ranges[row].left, x * kPitch.x - half);
    ranges[row].right = Math.max(ranges[row].right, x * kPitch.x + half);
  };
  for (const node of nodes) include(node.row, node.x, kNode.width / 2);
  for (const edge of edges) {
    edge.xs.forEach((x, index) => include(nodes[edge.source].row + 1 + index, x, 0));
  }
  let best = { scale: 0 };
  for (let count = 1; count <= Math.min(kMostColumns, rows); count++) {
    const perColumn = Math.ceil(rows / count);
    const columns = [];
    let at = 0;
    for (let first = 0; first < rows; first += perColumn) {
      const own = ranges.slice(first, first + perColumn);
      const left = Math.min(...own.map((range) => range.left));
      const across = kLabelWidth + Math.max(...own.map((range) => range.right)) - left + 2 * kBandPadding;
      columns.push({ at, across, left: left - kLabelWidth });
      at += across + kColumnGap;
    }
    const scale = Math.min(width / (at - kColumnGap), height / (perColumn * kPitch.y), kZoom.most_fit);
    if (scale > best.scale * 1.05) best = { scale, perColumn, columns };
  }
  return best;
}

function drawGraph() {
  const canvas = element("graph");
  const { nodes, edges } = report.layout;
  const { perColumn, columns } = foldRows(canvas.clientWidth, canvas.clientHeight);
  const place = (x, row) => {
    const column = Math.floor(row / perColumn);
    const { at, left } = columns[column];
    return { x: at + x * kPitch.x - left, y: (row - column * perColumn) * kPitch.y, column };
  };
  const scene = svg("g", { id: "scene" });
  drawBands(scene, perColumn, columns);
  const lines = svg("g");
  scene.append(lines);
  for (const edge of edges) {
    const rowsBetween = edge.xs.map((x, index) => place(x, nodes[edge.source].row + 1 + index));
    const points = [place(nodes[edge.source].x, nodes[edge.source].row), ...rowsBetween,
      place(nodes[edge.target].x, nodes[edge.target].row)];
    for (const [kind, text] of Object.entries(paths(points))) {
      if (!text) continue;
      const line = svg("path", { class: `edge ${kind}`, d: text });
      line.dataset.source = nodes[edge.source].name;
      line.dataset.target = nodes[edge.target].name;
      lines.append(line);
    }
  }
  const longest = Math.max(...report.operators.map((operator) => operator.ms), 1e-9);
  places.clear();
  for (const node of nodes) {
    const at = place(node.x, node.row);
    const drawn = drawNode(node, operators.get(node.name), at, longest);
    places.set(node.name, { ...at, row: node.row, drawn });
    scene.append(drawn);
  }
  extent = {
    left: -2 * kBandPadding, top: -kPitch.y / 2 - kBandPadding,
    right: columns.at(-1).at + columns.at(-1).across,
    bottom: (perColumn - 0.5) * kPitch.y + kBandPadding,
  };
  canvas.replaceChildren(scene);
  mark();
}

/// Smooth lines through the rows: those within a column, and those to the top of the next one.
function paths(points) {
  const parts = { inside: "", fold: "" };
  for (let index = 1; index < points.length; index++) {
    const from = points[index - 1], to = points[index];
    const begin = from.y + (index === 1 ? kNode.height / 2 : 0);
    const end = to.y - (index === points.length - 1 ? kNode.height / 2 : 0);
    const kind = from.column === to.column ? "inside" : "fold";
    const bend = kind === "inside" ? Math.max((end - begin) / 2, 12) : kPitch.y;
    parts[kind] += `M${from.x} ${begin} C${from.x} ${begin + bend} ${to.x} ${end - bend} ${to.x} ${end} `;
  }
  return parts;
}

function drawNode(node, operator, at, longest) {
  const device = operator ? operator.device : "input";
  const words = operator
    ? `${node.name}, ${operator.kind}, ${operator.device}, stage ${operator.stage}, ${milliseconds(operator.ms)}`
    : `${node.name}, input of the network`;
  const drawn = svg("g", {
    class: `node ${device}`, role: "button", tabindex: "-1", "aria-label": words,
    transform: `translate(${at.x - kNode.width / 2} ${at.y - kNode.height / 2})`,
  }, [
    svg("title", { text: words }),
    svg("rect", { class: "box", width: kNode.width, height: kNode.height, rx: 7 }),
    svg("text", { x: 10, y: 19, text: short(node.name, 23) }),
    svg("text", { class: "kind", x: 10, y: 35, text: operator ? `${operator.kind} · ${milliseconds(operator.ms)}` : "input" }),
  ]);
  if (operator) {
    const width = (kNode.width - 20) * operator.ms / longest;
    drawn.append(svg("rect", { class: "time", x: 10, y: kNode.height - 6, width, height: 3 }));
  }
  drawn.addEventListener("click", () => { if (!drag.moved) choose(node.name); });
  drawn.addEventListener("focus", () => reveal(node.name));
  return drawn;
}

/// A band for each stage and column, with the stage's name, and a line at each cut.
function drawBands(scene, perColumn, columns) {
  const { nodes } = report.layout;
  const rowsOf = new Map();
  for (const node of nodes) {
    const operator = operators.get(node.name);
    if (!operator) continue;
    const [first, last] = rowsOf.get(operator.stage) ?? [Infinity, -Infinity];
    rowsOf.set(operator.stage, [Math.min(first, node.row), Math.max(last, node.row)]);
  }
  report.stages.forEach((stage, index) => {
    const [first, last] = rowsOf.get(stage.name) ?? [0, -1];
    for (let row = first; row <= last;) {
      const column = Math.floor(row / perColumn);
      const end = Math.min(last, (column + 1) * perColumn - 1);
      const { at, across } = columns[column];
      const x = at - kBandPadding;
      const y = (row - column * perColumn - 0.5) * kPitch.y + 2;
      const height = (end - row + 1) * kPitch.y - 4;
      scene.append(svg("rect", { class: "band", x, y, width: across, height, rx: 9 }));
      if (row === first) {
        scene.append(svg("text", { class: "band_label", x: x + 8, y: y + 17, text: short(stage.name, 16) }),
          svg("text", { class: "band_label", x: x + 8, y: y + 31, text: milliseconds(stage.ms) }));
        if (index) scene.append(svg("line", { class: "cut", x1: x, x2: x + across, y1: y - 2, y2: y - 2 }));
      }
      row = end + 1;
    }
  });
}

// ---- view

function showView() {
  element("scene").setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
}

/// Shows the whole network.
function fit() {
  const canvas = element("graph");
  const width = extent.right - extent.left, height = extent.bottom - extent.top;
  const both = Math.min(canvas.clientWidth / width, canvas.clientHeight / height);
  view.scale = Math.max(kZoom.least, Math.min(kZoom.most_fit, both));
  view.x = (canvas.clientWidth - width * view.scale) / 2 - extent.left * view.scale;
  view.y = Math.max(0, (canvas.clientHeight - height * view.scale) / 2) - extent.top * view.scale;
  showView();
}

/// Shows the whole network, or the chosen operator if the whole could not be read.
function firstView() {
  fit();
  if (view.scale >= kZoom.readable) return;
  view.scale = kZoom.first;
  centre(chosen, kZoom.first);
  view.y = Math.min(view.y, -extent.top * view.scale);  // no empty space above
  showView();
}

/// Zooms by a factor around a point of the drawing area, its middle if none is given.
function zoom(factor, x = element("graph").clientWidth / 2, y = element("graph").clientHeight / 2) {
  const scale = Math.max(kZoom.least, Math.min(kZoom.most, view.scale * factor));
  view.x = x - (x - view.x) * scale / view.scale;
  view.y = y - (y - view.y) * scale / view.scale;
  view.scale = scale;
  showView();
}

/// Moves the view so that a node is inside it.
function reveal(name) {
  const at = places.get(name);
  if (!at) return;
  const canvas = element("graph");
  const x = at.x * view.scale + view.x, y = at.y * view.scale + view.y;
  const border = { x: Math.min(120, canvas.clientWidth / 3), y: Math.min(70, canvas.clientHeight / 3) };
  view.x += Math.max(0, border.x - x) - Math.max(0, x - (canvas.clientWidth - border.x));
  view.y += Math.max(0, border.y - y) - Math.max(0, y - (canvas.clientHeight - border.y));
  showView();
}

/// Brings a node to the middle, large enough to be read.
function centre(name, least = 0.8) {
  const at = places.get(name);
  if (!at) return;
  const canvas = element("graph");
  view.scale = Math.max(view.scale, least);
  view.x = canvas.clientWidth / 2 - at.x * view.scale;
  view.y = canvas.clientHeight / 2 - at.y * view.scale;
  showView();
}

const drag = { pointers: new Map(), moved: false, distance: 0 };

function spread() {
  const [one, two] = [...drag.pointers.values()];
  return Math.hypot(one.x - two.x, one.y - two.y);
}

function startDrag(event) {
  drag.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY, from: [event.clientX, event.clientY] });
  if (drag.pointers.size === 1) drag.moved = false;
  if (drag.pointers.size === 2) drag.distance = spread();
}

function moveDrag(event) {
  const held = drag.pointers.get(event.pointerId);
  if (!held) return;
  const canvas = element("graph");
  if (!drag.moved && Math.hypot(event.clientX - held.from[0], event.clientY - held.from[1]) > kDragPixels) {
    drag.moved = true;
    canvas.classList.add("dragging");
    canvas.setPointerCapture(event.pointerId);
  }
  if (drag.moved) {
    view.x += (event.clientX - held.x) / drag.pointers.size;
    view.y += (event.clientY - held.y) / drag.pointers.size;
  }
  held.x = event.clientX;
  held.y = event.clientY;
  if (drag.pointers.size === 2) {
    const box = canvas.getBoundingClientRect();
    const [one, two] = [...drag.pointers.values()];
    const distance = spread();
    zoom(distance / Math.max(drag.distance, 1), (one.x + two.x) / 2 - box.left, (one.y + two.y) / 2 - box.top);
    drag.distance = distance;
  }
  if (drag.moved) showView();
}

function endDrag(event) {
  drag.pointers.delete(event.pointerId);
  if (!drag.pointers.size) element("graph").classList.remove("dragging");
}

// ---- choice and search

/// Chooses an operator or input: its details, its place in graph and tables.
function choose(name, { move = false } = {}) {
  chosen = name;
  showDetails(name);
  mark();
  markRows();
  if (move) centre(name);
}

function search(text) {
  const wanted = text.trim().toLowerCase();
  matches = !wanted ? [] : report.operators.filter(({ name, kind, stage }) =>
    [name, kind, stage].some((word) => word.toLowerCase().includes(wanted))).map(({ name }) => name);
  element("matches").textContent = !wanted ? "" : matches.length === 1 ? "1 operator" : `${matches.length} operators`;
  mark();
  filterOperators(wanted ? new Set(matches) : null);
}

function nextMatch() {
  if (!matches.length) return;
  choose(matches[(matches.indexOf(chosen) + 1) % matches.length], { move: true });
}

function mark() {
  const found = new Set(matches);
  const searching = element("search").value.trim() !== "";
  const first = places.has(chosen) ? chosen : report.layout.nodes[0]?.name;
  for (const [name, { drawn }] of places) {
    drawn.classList.toggle("chosen", name === chosen);
    drawn.classList.toggle("match", found.has(name));
    drawn.classList.toggle("dim", searching && !found.has(name) && name !== chosen);
    drawn.setAttribute("aria-pressed", name === chosen);
    drawn.setAttribute("tabindex", name === first ? 0 : -1);
  }
  for (const line of document.querySelectorAll("#scene .edge")) {
    const { source, target } = line.dataset;
    line.classList.toggle("chosen", source === chosen || target === chosen);
    line.classList.toggle("dim", searching && !(found.has(source) && found.has(target)));
  }
}

/// The node in a direction from a node: along the network, or beside it in its row.
function neighbour(name, key) {
  if (key === "ArrowDown") return (readers.get(name) ?? inputReaders(name))[0];
  if (key === "ArrowUp") return operators.get(name)?.inputs.find((input) => places.has(input));
  const { nodes } = report.layout;
  const here = nodes.find((node) => node.name === name);
  const row = nodes.filter((node) => node.row === here.row).sort((one, two) => one.x - two.x);
  return row[row.indexOf(here) + (key === "ArrowRight" ? 1 : -1)]?.name;
}

function inputReaders(input) {
  return report.operators.filter(({ inputs }) => inputs.includes(input)).map(({ name }) => name);
}

function pressInGraph(event) {
  const node = event.target.closest(".node");
  const name = node && [...places].find(([, { drawn }]) => drawn === node)?.[0];
  if (event.key === "+" || event.key === "=") zoom(kZoom.step);
  else if (event.key === "-") zoom(1 / kZoom.step);
  else if (event.key === "0") fit();
  else if (name && (event.key === "Enter" || event.key === " ")) choose(name);
  else if (name && event.key.startsWith("Arrow")) {
    const next = neighbour(name, event.key);
    if (next) {
      choose(next);
      places.get(next).drawn.focus({ preventScroll: true });
    }
  } else return;
  event.preventDefault();
}

function startGraph() {
  const canvas = element("graph");
  drawGraph();
  canvas.addEventListener("pointerdown", startDrag);
  canvas.addEventListener("pointermove", moveDrag);
  canvas.addEventListener("pointerup", endDrag);
  canvas.addEventListener("pointercancel", endDrag);
  canvas.addEventListener("pointerleave", endDrag);
  canvas.addEventListener("keydown", pressInGraph);
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;  // the wheel alone moves the page
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  element("zoom_in").addEventListener("click", () => zoom(kZoom.step));
  element("zoom_out").addEventListener("click", () => zoom(1 / kZoom.step));
  element("zoom_fit").addEventListener("click", fit);
  element("search").addEventListener("input", (event) => search(event.target.value));
  element("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextMatch();
  });
}
