// The live page's controls and keys, and what it says to screen readers.
"use strict";

const kLeastSayMs = 5000;  // between two announcements
const kLetters = "edgepipe letters";  // remembers whether letters are keys

// ---- for screen readers: what changed, seldom enough to be heard

const sayings = new Map();  // by topic: what is to be said, and what was
let saidAt = -Infinity;

function say(topic, text) {
  const saying = sayings.get(topic) ?? { said: "" };
  sayings.set(topic, { ...saying, text });
  const now = performance.now();
  if (now - saidAt < kLeastSayMs) return;
  const changed = [...sayings].filter(([, { text, said }]) => text !== said);
  if (changed.length === 0) return;
  for (const [name, { text }] of changed) sayings.set(name, { text, said: text });
  saidAt = now;
  show("said", changed.map(([, { text }]) => text).filter(Boolean).join("; "));
}

// ---- controls

function setPaused(on) {
  paused = on;
  show("pause", on ? "Continue" : "Pause");
  if (!on) drawNewest();
}

function setThreshold() {
  const { value } = element("threshold");
  show("threshold_text", `${value} %`);
  element("threshold").setAttribute("aria-valuetext", `${value} percent`);
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

// ---- keys

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
  const key = event.key.toLowerCase();
  if (key === " ") {
    // On these, it does what it always does.
    if (event.target.closest("button, summary, input[type=checkbox]")) return;
    event.preventDefault();  // it would scroll
    setPaused(!paused);
  }
  if (!element("letters").checked) return;  // who dictates may not want them
  if (key === "p") setPaused(!paused);
  if (key === "s") saveSnapshot();
}

function rememberLetters() {
  try {
    localStorage.setItem(kLetters, element("letters").checked ? "on" : "off");
  } catch {
    // The browser keeps nothing.
  }
}

function recallLetters() {
  try {
    element("letters").checked = localStorage.getItem(kLetters) !== "off";
  } catch {
    // The same.
  }
}

element("pause").addEventListener("click", () => setPaused(!paused));
element("snapshot").addEventListener("click", saveSnapshot);
element("threshold").addEventListener("input", setThreshold);
element("letters").addEventListener("change", rememberLetters);
document.addEventListener("keydown", pressed);
recallLetters();
setThreshold();
