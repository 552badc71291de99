// Tables that are sorted by a click on a column's name.
"use strict";

const kLongestWord = 34;

/// Fills a table. A column has `name`, `value(row)`, and maybe `show(row)`, `words`, `kind(row)`, `link(row)`, `long`.
function fillTable(id, columns, rows, { name = () => "", sort = null } = {}) {
  const table = element(id);
  const body = make("tbody");
  const heads = columns.map((column, index) => {
    const head = make("th", { scope: "col", class: column.words ? "words" : "" }, [
      make("button", { text: column.name, title: column.title ?? "", on: { click: () => order(index) } })]);
    return head;
  });
  let sorted = { index: -1, down: false };

  const drawn = rows.map((row) => {
    const line = make("tr", {}, columns.map((column) => cellOf(column, row)));
    line.dataset.name = name(row);
    return { row, line };
  });

  function order(index, down = null) {
    const column = columns[index];
    // Numbers begin with the largest, words with the first.
    sorted = { index, down: down ?? (sorted.index === index ? !sorted.down : !column.words) };
    heads.forEach((head, at) => head.setAttribute("aria-sort",
      at !== index ? "none" : sorted.down ? "descending" : "ascending"));
    drawn.sort((one, two) => compareValues(column.value(one.row), column.value(two.row), sorted.down));
    body.append(...drawn.map(({ line }) => line));
  }

  body.append(...drawn.map(({ line }) => line));
  table.replaceChildren(make("thead", {}, [make("tr", {}, heads)]), body);
  if (sort !== null) order(sort);
}

function cellOf(column, row) {
  const whole = column.show ? column.show(row) : String(column.value(row));
  const text = column.words && !column.long ? short(whole, kLongestWord) : whole;
  const kinds = [column.words ? "words" : "", column.long ? "long" : "", column.kind ? column.kind(row) : ""];
  const cell = make("td", { class: kinds.filter(Boolean).join(" ") });
  if (column.link) {
    cell.append(make("button", { text, title: whole, on: { click: () => {
      choose(column.link(row), { move: true });
      element("network").scrollIntoView();
    } } }));
  } else {
    cell.textContent = text;
    if (text !== whole) cell.title = whole;
  }
  return cell;
}

/// Compares values; missing ones come last in both directions.
function compareValues(one, two, down) {
  if (one === null || two === null) return (one === null) - (two === null);
  const order = typeof one === "string" ? one.localeCompare(two, "en", { numeric: true }) : one - two;
  return down ? -order : order;
}

function markRows() {
  for (const line of document.querySelectorAll("tbody tr[data-name]")) {
    line.classList.toggle("chosen", chosen !== "" && line.dataset.name === chosen);
  }
}

/// Shows only the operators with these names, all if there are none.
function filterOperators(names) {
  for (const line of document.querySelectorAll("#operator_table tbody tr")) {
    line.hidden = names !== null && !names.has(line.dataset.name);
  }
}

function fillOperators() {
  const layer = (key) => (operator) => operator.layer && !operator.computed_with ? operator.layer[key] : null;
  const total = report.operators.reduce((sum, { ms }) => sum + ms, 0);
  fillTable("operator_table", [
    { name: "#", value: ({ number }) => number },
    { name: "operator", words: true, value: ({ name }) => name, link: ({ name }) => name },
    { name: "kind", words: true, value: ({ kind }) => kind },
    { name: "can", words: true, title: "devices that can run it", value: ({ can }) => can.join(", ") },
    { name: "should", words: true, title: "the device that it was placed on", value: (row) => row.device, kind: (row) => row.device },
    { name: "stage", words: true, value: ({ stage }) => stage },
    { name: "time", value: ({ ms }) => ms, show: ({ ms }) => milliseconds(ms) },
    { name: "share", title: "of the times of all operators", value: ({ ms }) => ms / total, show: ({ ms }) => percent(ms / total) },
    { name: "cycles", value: layer("cycles"), show: (row) => whole(layer("cycles")(row)) },
    { name: "of ideal", value: layer("ideal_share"), show: (row) => percent(layer("ideal_share")(row)) },
    { name: "moved", value: layer("moved_bytes"), show: (row) => layer("moved_bytes")(row) === null ? "–" : bytes(row.layer.moved_bytes) },
    { name: "stalls", title: "cycles that modules of the accelerator waited", value: (row) => stalls(row), show: (row) => whole(stalls(row)) },
    { name: "reason", words: true, long: true, value: ({ reason }) => reason },
  ], report.operators.map((operator, index) => ({ ...operator, number: index + 1 })), { name: ({ name }) => name });
  element("operators_note").textContent = "Times and cycles are by the timing model. “Of ideal” is the time in which all " +
    `${report.macs_per_cycle} multipliers would do the operator's products, over the time that it takes. Layers overlap: a ` +
    "layer's cycles are what it adds to its program. The search above also filters this table.";
}

function stalls(operator) {
  if (!operator.layer || operator.computed_with) return null;
  return Object.values(operator.layer.stalls).reduce((sum, cycles) => sum + cycles, 0);
}

function fillStages() {
  const measured = new Map((report.measurement?.stages ?? []).map((stage) => [stage.name, stage]));
  const columns = [
    { name: "stage", words: true, value: ({ name }) => name },
    { name: "device", words: true, value: (row) => row.device, kind: (row) => row.device },
    { name: "operators", value: (row) => row.operators },
    { name: "threads", value: ({ threads }) => threads },
    { name: "time by the model", value: ({ ms }) => ms, show: ({ ms }) => milliseconds(ms) },
    { name: "cycles", value: ({ cycles }) => cycles || null, show: ({ cycles }) => cycles ? whole(cycles) : "–" },
    { name: "of ideal", value: (row) => row.ideal_share, show: (row) => percent(row.ideal_share) },
    { name: "hands over", value: (row) => row.written_bytes, show: (row) => bytes(row.written_bytes) },
    { name: "files", value: (row) => row.bytes, show: (row) => bytes(row.bytes) },
  ];
  if (measured.size) {
    const mean = ({ name }) => measured.get(name).mean_ms;
    columns.splice(5, 0,
      { name: "measured", value: mean, show: (row) => milliseconds(mean(row)) },
      { name: "ratio", value: (row) => row.ms ? mean(row) / row.ms : null, show: (row) => row.ms ? `${(mean(row) / row.ms).toFixed(2)}×` : "–" },
      { name: "busy", value: ({ name }) => measured.get(name).utilisation, show: ({ name }) => percent(measured.get(name).utilisation) });
  }
  fillTable("stage_table", columns, report.stages);
}

function fillComparison() {
  const { comparison } = report;
  if (!comparison) return;
  element("comparison").hidden = false;
  element("to_comparison").hidden = false;
  const here = `${report.name} (${report.board})`, there = `${comparison.other} (${comparison.other_board})`;
  const number = (figure, key) => figure[key].toFixed(figure.unit ? 2 : 0) + (figure.unit ? ` ${figure.unit}` : "");
  fillTable("figure_table", [
    { name: "figure", words: true, value: ({ name }) => name },
    { name: `this: ${here}`, value: (row) => row.this, show: (row) => number(row, "this") },
    { name: `other: ${there}`, value: (row) => row.other, show: (row) => number(row, "other") },
    { name: "change", value: ({ change }) => change, show: ({ change }) => signed(change) },
  ], comparison.figures);
  const moved = comparison.operators.filter((row) => row.this_device && row.other_device && row.this_device !== row.other_device);
  element("changes_note").textContent = `${moved.length} operators run on another device.`;
  const difference = (row) => row.this_ms === null || row.other_ms === null ? null : row.this_ms - row.other_ms;
  fillTable("change_table", [
    { name: "operator", words: true, value: ({ name }) => name },
    { name: "kind", words: true, value: ({ kind }) => kind },
    { name: "this", words: true, value: (row) => row.this_device || "–", kind: (row) => row.this_device },
    { name: "other", words: true, value: (row) => row.other_device || "–", kind: (row) => row.other_device },
    { name: "time, this", value: (row) => row.this_ms, show: (row) => milliseconds(row.this_ms) },
    { name: "time, other", value: (row) => row.other_ms, show: (row) => milliseconds(row.other_ms) },
    { name: "difference", value: (row) => difference(row) === null ? null : Math.abs(difference(row)),
      show: (row) => difference(row) === null ? "–" : `${difference(row) < 0 ? "−" : "+"}${milliseconds(Math.abs(difference(row)))}` },
  ], comparison.operators, { sort: 6 });
}

function signed(share) {
  return share === null ? "–" : `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}`;
}
