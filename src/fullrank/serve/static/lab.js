// The Lab tab: the user moves points in the plane, and the server runs the layer on
// them. Only one request at a time; while it runs, only the newest one is queued.

import { at, problem } from "./predict.js";

const $ = (id) => document.getElementById(id);
const STEP = 0.1; // of an arrow key
const EDGE = 3;

let points = [[0, 0], [1.6, 0.4], [-0.8, 1.5], [0.5, -1.9]]; // the node first
let seed = 0;
let answer = null;
let asking = false, again = false, begun = false;
let highlighted = null; // a dimension of the output

function shape(name, values = {}, content = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(values).forEach(([key, value]) => made.setAttribute(key, value));
  made.append(content);
  return made;
}

const round = (x) => Math.round(x * 100) / 100;
const within = (x) => Math.min(EDGE, Math.max(-EDGE, x));
const called = (i) => (i === 0 ? "node" : `${i}`);

function star(place, className, draggable) {
  const group = shape("g", { class: className });
  place.slice(1).forEach(([x, y]) => group.append(shape("line", {
    class: "edge", x1: place[0][0], y1: -place[0][1], x2: x, y2: -y })));
  place.forEach(([x, y], i) => {
    if (i === 0 && !draggable) return; // both neighbourhoods have the same node
    const point = shape("g", { class: i ? "point" : "point node",
      transform: `translate(${x} ${-y})`, "data-index": i });
    const radius = draggable ? 0.2 : 0.26;
    point.append(shape("circle", { r: radius }));
    if (draggable) {
      if (i) point.append(shape("text", {}, called(i)));
      point.setAttribute("tabindex", 0);
      point.setAttribute("role", "button");
      point.setAttribute("aria-roledescription", "movable point");
      point.setAttribute("aria-label", `${i ? `Neighbour ${i}` : "The node"} at ` +
        `${round(x)}, ${round(y)}`);
      const sums = answer?.sums?.[highlighted];
      if (sums && !sums[i]) point.classList.add("left-out");
    }
    group.append(point);
  });
  return group;
}

function drawPlane() {
  const all = [...points, ...(answer?.second ?? [])].flat().map(Math.abs);
  const half = Math.max(EDGE, ...all) + 0.3;
  $("plane").setAttribute("viewBox", `${-half} ${-half} ${2 * half} ${2 * half}`);
  const focused = document.activeElement?.dataset?.index;
  $("plane").replaceChildren(
    ...(answer?.second ? [star(answer.second, "second", false)] : []),
    star(points, "first", true));
  if (focused !== undefined)
    $("plane").querySelector(`.first [data-index="${focused}"]`)?.focus();
}

function table(id, header, rows) {
  const cell = (text, name) => {
    const made = document.createElement(name);
    made.append(text);
    return made;
  };
  const line = (cells, name) => {
    const made = document.createElement("tr");
    cells.forEach((text, i) => {
      const one = cell(text, i ? name : "th");
      if (!i && name === "td") one.scope = "row";
      made.append(one);
    });
    return made;
  };
  const head = document.createElement("thead"), body = document.createElement("tbody");
  if (header.length) head.append(line(header, "th"));
  body.append(...rows.map((row) => line(row, "td")));
  $(id).replaceChildren(head, body);
}

const NAMES = { "rank M": "of the coefficients M", "rank H": "of the features H",
  "rank R": "of the aggregate M H", kept: "kept of the rank of H" };

function show() {
  const finding = $("finding");
  finding.className = answer.found ? "found" : "none";
  finding.textContent = answer.found
    ? `A second neighbourhood has the same output: the layer was run on both, and its ` +
      `${answer.outputs[0].length} outputs differ by at most ${answer.gap.toExponential(1)}. ` +
      `The output depends on ${answer.sensed} of the ${answer.free} coordinates of the neighbours.`
    : `No second neighbourhood with the same output was found in ${answer.starts} searches; ` +
      `the closest outputs differ by ${answer.gap.toExponential(1)}. ` +
      `The output depends on ${answer.sensed} of the ${answer.free} coordinates of the neighbours.`;
  table("ranks", [], answer.ranks.map((one) => [NAMES[one.name],
    one.value === null ? `– (${one.why_not})`
      : one.name === "kept" ? `${Math.round(100 * one.value)}%` : one.value]));
  const all = points.map((_, i) => called(i));
  table("coefficients", ["row of M", ...all], answer.coefficients.map(
    (row, k) => [`${k + 1}`, ...row.map((m) => m.toFixed(2))]));
  sampling(all);
  drawPlane();
}

function sampling(all) {
  $("sampling-text").textContent = answer.sums
    ? "With Re-SUM each dimension sums only the messages that pass its ReLU. Select a " +
      "dimension to highlight its points."
    : "Without Re-SUM each dimension sums all points.";
  table("sampling", answer.sums ? ["dimension", ...all] : [], (answer.sums ?? []).map((row, k) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = k + 1;
    button.setAttribute("aria-pressed", k === highlighted);
    button.setAttribute("aria-label", `Show the points of dimension ${k + 1}`);
    button.addEventListener("click", () => {
      highlighted = highlighted === k ? null : k;
      sampling(all);
      drawPlane();
      $("sampling").querySelectorAll("button")[k].focus();
    });
    return [button, ...row.map(mark)];
  }));
}

function mark(summed) {
  const made = document.createElement("span");
  made.textContent = summed ? "●" : "·";
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", summed ? "summed" : "left out");
  return made;
}

async function ask() {
  again = true;
  if (asking) return;
  asking = true;
  while (again) {
    again = false;
    const question = { layer: $("layer").value, s: Number($("s").value) || 1,
      re_sum: $("re-sum").checked, points, seed };
    try {
      const reply = await fetch(at("lab"), { method: "POST",
        headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });
      if (reply.ok) {
        answer = await reply.json();
        if (again) answer.second = null; // the points have moved since
        else show();
      } else {
        answer = null;
        $("finding").textContent = `The experiment failed: ${await problem(reply)}.`;
        drawPlane();
      }
    } catch (error) {
      $("finding").textContent = `The connection failed: ${error.message}.`;
    }
  }
  asking = false;
}

function moved() {
  // The result belongs to the previous positions.
  answer = answer && { ...answer, second: null };
  $("finding").className = "";
  drawPlane();
  ask();
}

function place(event) {
  const matrix = $("plane").getScreenCTM().inverse();
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
  return [round(within(x)), round(within(-y))];
}

let dragged = null;
$("plane").addEventListener("pointerdown", (event) => {
  const point = event.target.closest(".first .point");
  if (!point) return;
  dragged = Number(point.dataset.index);
  $("plane").setPointerCapture(event.pointerId);
  point.focus();
  event.preventDefault();
});
$("plane").addEventListener("pointermove", (event) => {
  if (dragged === null) return;
  points[dragged] = place(event);
  moved();
});
for (const name of ["pointerup", "pointercancel"])
  $("plane").addEventListener(name, () => { dragged = null; });
$("plane").addEventListener("keydown", (event) => {
  const steps = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, STEP],
    ArrowDown: [0, -STEP] };
  const index = event.target.dataset?.index;
  if (!(event.key in steps) || index === undefined) return;
  event.preventDefault();
  points[index] = points[index].map((x, k) => round(within(x + steps[event.key][k])));
  moved();
});

function controls() {
  const layer = $("layer").value;
  $("s").disabled = !["expc", "gat"].includes(layer);
  $("re-sum").disabled = !["expc", "combc"].includes(layer);
  $("fewer").disabled = points.length <= 2;
  $("another").disabled = points.length >= 9;
}

function changed() {
  highlighted = null;
  controls();
  moved();
}

for (const id of ["layer", "s", "re-sum"]) $(id).addEventListener("change", changed);
$("layer-form").addEventListener("submit", (event) => event.preventDefault());
$("weights").addEventListener("click", () => { seed += 1; changed(); });
$("fewer").addEventListener("click", () => { points.pop(); changed(); });
$("another").addEventListener("click", () => {
  const angle = 2.4 * points.length; // no two points coincide
  points.push([round(2 * Math.cos(angle)), round(2 * Math.sin(angle))]);
  changed();
});
$("tab-lab").addEventListener("shown", () => {
  if (begun) return;
  begun = true;
  changed();
});
if (!$("lab").hidden) $("tab-lab").dispatchEvent(new Event("shown"));
drawPlane();
