// What is known about the chosen operator: why it runs where it does, and what it costs.
"use strict";

function facts(rows) {
  return make("dl", {}, rows.filter(([, value]) => value !== null).flatMap(
    ([name, value]) => [make("dt", { text: name }), make("dd", { text: value })]));
}

function chips(names) {
  return make("div", {}, names.map((name) => make("button", {
    class: "chip", text: short(name, 34), title: name, on: { click: () => choose(name, { move: true }) },
  })));
}

function showDetails(name) {
  const operator = operators.get(name);
  const place = element("details");
  if (!operator) {
    const [, shape] = report.inputs.find(([input]) => input === name) ?? [];
    place.replaceChildren(make("h3", { text: name }), facts([["input of the network", shape ?? ""]]),
      make("h3", { text: "read by" }), chips(inputReaders(name)));
    return;
  }
  place.replaceChildren(
    make("h3", { text: name }),
    make("p", { class: `reason ${operator.device}`, text: `On ${device(operator.device)}: ${operator.reason}.` }),
    facts([
      ["kind", operator.kind],
      ["stage", operator.stage],
      ["result", `${operator.dtype}[${operator.shape.join(", ")}]`],
      ["products", operator.products ? whole(operator.products) : null],
      ["constants", operator.constant_bytes ? bytes(operator.constant_bytes) : null],
      ["time in its stage", milliseconds(operator.ms)],
    ]),
    ...layerDetails(operator),
    make("h3", { text: "on each device" }),
    facts([
      ["ARM, one core", milliseconds(operator.arm_ms)],
      ["VTA, alone", operator.vta_ms === null ? "not possible" : milliseconds(operator.vta_ms)],
    ]),
    ...(operator.refusal && operator.refusal !== operator.reason ? [make("p", { class: "note", text: `The VTA refuses it: ${operator.refusal}.` })] : []),
    ...cutDetails(operator),
    make("h3", { text: "reads" }), chips(operator.inputs),
    ...(readers.get(name).length ? [make("h3", { text: "read by" }), chips(readers.get(name))] : []),
  );
}

function device(name) {
  return name === "arm" ? "ARM" : "the VTA";
}

function layerDetails(operator) {
  const { layer } = operator;
  if (!layer) return [];
  if (operator.computed_with) {
    return [make("h3", { text: "computed together with" }), chips([operator.computed_with])];
  }
  if (!layer.cycles) return [make("p", { class: "note", text: "It takes no time: what it reads is written in place." })];
  const { stalls } = layer;
  return [make("h3", { text: "in the program" }), facts([
    ["cycles", whole(layer.cycles)],
    ["share of ideal", layer.ideal_share === null ? null : percent(layer.ideal_share)],
    ["moved", bytes(layer.moved_bytes)],
    ["waits for loads", whole(stalls.load)],
    ["waits for stores", whole(stalls.store)],
    ["waits for instructions", whole(stalls.fetch)],
    ["waits for the port", whole(stalls.port)],
  ])];
}

function cutDetails(operator) {
  const cut = report.what_if.cuts.find((one) => one.operator === operator.name);
  if (!cut) return [];
  const { built } = report.what_if;
  const change = cut.interval_ms / built.interval_ms - 1;
  return [make("h3", { text: "if the network were cut here" }), facts([
    ["between frames", `${milliseconds(cut.interval_ms)} (${change >= 0 ? "+" : "−"}${percent(Math.abs(change))})`],
    ["one frame", milliseconds(cut.serial_ms)],
    ["stages", whole(cut.stages)],
  ]), make("code", { text: `--cut ${operator.name}` })];
}
