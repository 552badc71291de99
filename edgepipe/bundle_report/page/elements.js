// Elements and numbers. Text from the report only ever becomes text of an element.
"use strict";

const kSvg = "http://www.w3.org/2000/svg";
const kMebibyte = 1 << 20;

const report = JSON.parse(document.getElementById("data").textContent);

function element(id) {
  return document.getElementById(id);
}

/// Makes an element; `settings` are attributes, or `text`, or `on` with listeners.
function make(name, settings = {}, children = [], space = "") {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(settings)) {
    if (key === "text") made.textContent = value;
    else if (key === "on") for (const [event, run] of Object.entries(value)) made.addEventListener(event, run);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function svg(name, settings = {}, children = []) {
  return make(name, settings, children, kSvg);
}

function milliseconds(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms && ms < 0.1) return `${(ms * 1000).toFixed(1)} µs`;
  return `${ms.toFixed(ms < 100 ? 2 : 0)} ms`;
}

function percent(share) {
  return share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`;
}

function bytes(count) {
  if (count < 1024) return `${count} B`;
  return count < kMebibyte ? `${(count / 1024).toFixed(1)} KiB` : `${(count / kMebibyte).toFixed(2)} MiB`;
}

function whole(number) {
  return number === null || number === undefined ? "–" : number.toLocaleString("en-US");
}

/// Shortens a name in the middle: exporters put what differs at its end.
function short(text, most) {
  if (text.length <= most) return text;
  const head = Math.floor((most - 1) / 3);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}

/// Width of `parent`'s content in pixels, which charts are drawn for.
function widthOf(parent) {
  return Math.max(parent.clientWidth, 280);
}
