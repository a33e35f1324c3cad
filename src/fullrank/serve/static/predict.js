// The Predict tab: sends a table to the server, which streams it back with predictions.
// The result is displayed, and can be downloaded.

const $ = (id) => document.getElementById(id);
const SHOWN = 24; // molecules at a time
const BINS = 30;

let cards = [];
let file = null; // chosen or dropped
let table = { header: [], rows: [], text: "" };
let shown = 0;
let running = null; // the request in progress, aborted by the next one

function element(name, content = "", properties = {}) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(content);
  return made;
}

// Not relative to the page's address, which may contain a user name and the token.
export const at = (path) => new URL(path, location.origin + location.pathname);

export async function problem(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).detail;
  } catch {
    return `the server returned status ${answer.status}`;
  }
}

function say(text) {
  $("status").textContent = text;
}

const card = () => cards.find((one) => one.name === $("model").value);
const number = (value) => Number(Number(value).toPrecision(4)).toString();

// Parse CSV: a row ends with a line break outside quotes.
function* rowsOf(text) {
  let row = [], cell = "", quoted = false;
  for (let i = 0; i < text.length; i++) {
    const sign = text[i];
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (text[i + 1] === '"') { cell += '"'; i++; }
      else quoted = false;
    } else if (sign === '"') quoted = true;
    else if (sign === ",") { row.push(cell); cell = ""; }
    else if (sign === "\n") { yield [...row, cell]; row = []; cell = ""; }
    else if (sign !== "\r") cell += sign;
  }
}

function pasted() {
  const lines = $("smiles").value.split("\n").map((line) => line.trim()).filter(Boolean);
  const cells = ["smiles", ...lines].map((line) => `"${line.replaceAll('"', '""')}"`);
  return { body: cells.join("\n") + "\n", column: "smiles", count: lines.length };
}

async function predict() {
  running?.abort();
  running = new AbortController();
  const given = file
    ? { body: file, column: $("column").value.trim(), count: null }
    : pasted();
  if (given.count === 0) {
    say("Enter at least one SMILES.");
    $("smiles").focus();
    return;
  }
  const address = new URLSearchParams({ model: $("model").value });
  if (given.column) address.set("column", given.column);
  $("download").disabled = true;
  $("results").hidden = true;
  say("Predicting …");
  try {
    const answer = await fetch(at(`predict?${address}`), {
      method: "POST", body: given.body, signal: running.signal,
      headers: { "Content-Type": "text/csv" },
    });
    if (!answer.ok) return say(`Prediction failed: ${await problem(answer)}.`);
    let text = "", rows = -1; // the header is not a row
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      text += part.value;
      rows += part.value.split("\n").length - 1;
      say(`Predicting … ${rows} rows so far`);
    }
    const [header, ...found] = rowsOf(text);
    table = { header, rows: found, text, column: given.column || card().smiles };
  } catch (error) {
    if (error.name !== "AbortError") say(`The connection failed: ${error.message}.`);
    return;
  }
  show();
}

function cellsOf(row) {
  return Object.fromEntries(table.header.map((name, i) => [name, row[i]]));
}

function show() {
  const failed = table.rows.map(cellsOf).filter((row) => row.reason).length;
  const total = table.rows.length;
  say(`${total - failed} of ${total} molecules predicted` +
    (failed ? `; for the other ${failed}, the reason is shown.` : "."));
  $("download").disabled = false;
  $("results").hidden = false;
  $("output").replaceChildren(
    ...card().outputs.map((one) => new Option(one.name, one.column)));
  $("molecules").replaceChildren();
  shown = 0;
  histogram();
  more();
}

function more() {
  const next = table.rows.slice(shown, shown + SHOWN);
  $("molecules").append(...next.map((row) => molecule(cellsOf(row))));
  shown += next.length;
  const left = table.rows.length - shown;
  $("more").hidden = left === 0;
  $("more").textContent = `Show ${Math.min(left, SHOWN)} more of ${left}`;
}

function molecule(row) {
  const smiles = row[table.column];
  const item = element("li");
  item.append(element("code", smiles));
  if (row.reason) {
    item.append(element("p", row.reason, { className: "reason" }));
    return item;
  }
  const picture = element("img", "", {
    alt: `Structure of ${smiles}`, loading: "lazy",
    src: at(`draw?${new URLSearchParams({ smiles })}`),
  });
  const list = element("dl");
  for (const one of card().outputs) {
    let text = number(row[one.column]) + (one.unit ? ` ${one.unit}` : "");
    if (one.std) text += ` ± ${number(row[one.std])}`;
    if (one.low) text += ` (${number(row[one.low])} to ${number(row[one.high])})`;
    list.append(element("dt", one.name), element("dd", text));
  }
  if (row.similarity !== undefined)
    list.append(element("dt", "similarity"), element("dd", number(row.similarity)));
  item.append(picture, list);
  if (row.note) item.append(element("p", `Unlike the training set: ${row.note}.`));
  if (card().explains) item.append(explainer(smiles, picture));
  return item;
}

function explainer(smiles, picture) {
  const button = element("button", "Explain", { type: "button" });
  button.setAttribute("aria-label", `Explain the prediction for ${smiles}`);
  const words = element("p", "", { className: "quiet" });
  words.setAttribute("role", "status");
  button.addEventListener("click", async () => {
    button.disabled = true;
    words.textContent = "Explaining …";
    const target = $("output").selectedOptions[0]?.text;
    const answer = await fetch(
      at(`explain?${new URLSearchParams({ model: $("model").value })}`), {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ smiles, target }),
      });
    button.disabled = false;
    if (!answer.ok) {
      words.textContent = `Explanation failed: ${await problem(answer)}.`;
      return;
    }
    const found = await answer.json();
    picture.src = `data:image/svg+xml,${encodeURIComponent(found.svg)}`;
    const parts = [...found.atoms, ...found.bonds, ...found.descriptors]
      .sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution)).slice(0, 4)
      .map((part) => `${part.name} ${part.contribution < 0 ? "−" : "+"}` +
        number(Math.abs(part.contribution)));
    const scale = found.scale ? ` ${found.scale}` : "";
    words.textContent =
      `${found.target}: ${number(found.value)}${scale}, including a base of ` +
      `${number(found.base)}. Orange atoms and bonds raise it, blue ones lower it. ` +
      `Largest contributions: ${parts.join(", ")}.`;
  });
  const both = element("div");
  both.append(button, words);
  return both;
}

// The histogram: fractions of the predictions, and of the training labels if known.
function histogram() {
  const output = card().outputs.find((one) => one.column === $("output").value);
  const place = table.header.indexOf(output.column);
  const values = table.rows.map((row) => row[place]).filter(Boolean).map(Number);
  const svg = $("histogram");
  svg.replaceChildren();
  svg.closest("figure").hidden = values.length === 0;
  if (!values.length) return;
  const training = output.training;
  let [low, high] = card().task === "regression"
    ? [Math.min(...ends(values), training?.low ?? Infinity),
       Math.max(...ends(values), training?.high ?? -Infinity)]
    : [0, 1];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const bin = (x) => Math.min(BINS - 1, Math.floor(((x - low) / (high - low)) * BINS));
  const predicted = new Array(BINS).fill(0);
  values.forEach((x) => predicted[bin(x)]++);
  const trained = new Array(BINS).fill(0);
  if (training) {
    const width = (training.high - training.low) / training.counts.length;
    training.counts.forEach((n, i) => { trained[bin(training.low + (i + .5) * width)] += n; });
  }
  draw(svg, predicted, trained, low, high);
  const unit = output.unit ? ` ${output.unit}` : "";
  const [least, most] = ends(values);
  let text = `${values.length} predictions of ${output.name} (coloured), from ` +
    `${number(least)} to ${number(most)}${unit}. `;
  if (training)
    text += `The training labels (grey) range from ${number(training.low)} to ` +
      `${number(training.high)}${unit}.`;
  else if (output.share !== null)
    text += `${number(100 * output.share)}% of the training labels are ` +
      (card().task === "binary" ? "positive." : "of this class.");
  else text += "The model file does not contain the distribution of its training labels.";
  $("histogram-text").textContent = text;
  svg.setAttribute("aria-label", text);
}

function ends(values) {
  return values.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)],
    [Infinity, -Infinity]);
}

function draw(svg, predicted, trained, low, high) {
  const shape = (name, values) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(values).forEach(([key, value]) => made.setAttribute(key, value));
    svg.append(made);
    return made;
  };
  const left = 10, width = 580, bottom = 190, top = 10, step = width / BINS;
  const bars = (counts, className, margin) => {
    const total = counts.reduce((a, b) => a + b, 0);
    const highest = Math.max(...predicted.map((n) => n / sum(predicted)),
      ...trained.map((n) => n / (sum(trained) || 1)));
    counts.forEach((count, i) => {
      if (!count) return;
      const height = ((bottom - top) * count) / total / highest;
      shape("rect", { class: className, x: left + i * step + margin, y: bottom - height,
        width: step - 2 * margin, height });
    });
  };
  bars(trained, "training", 0);
  bars(predicted, "predicted", step / 4);
  shape("line", { class: "axis", x1: left, x2: left + width, y1: bottom, y2: bottom });
  [0, 0.25, 0.5, 0.75, 1].forEach((part) => {
    const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
    shape("text", { x: left + part * width, y: bottom + 18, "text-anchor": anchor })
      .textContent = number(low + part * (high - low));
  });
}

const sum = (counts) => counts.reduce((a, b) => a + b, 0);

function describe() {
  const one = card();
  if (!one) return;
  const scores = Object.entries(one.scores.test ?? {})
    .filter(([name]) => !name.includes("/") && name !== "loss").slice(0, 3)
    .map(([name, value]) => `${name} ${number(value)}`);
  $("card").textContent =
    `Trained on ${one.dataset} (${one.graphs.train ?? "?"} molecules), ${one.task}` +
    (one.networks > 1 ? `, ${one.networks} networks` : "") +
    (one.interval ? `, ${one.interval}% intervals` : "") +
    (scores.length ? `. On its test part: ${scores.join(", ")}.` : ".") +
    (one.warning ? ` ${one.warning}` : "");
  $("column").placeholder = one.smiles;
}

function choose(chosen) {
  file = chosen ?? null;
  $("smiles").disabled = file !== null;
  if (file) say(`${file.name} is selected; remove it to use the text field instead.`);
}

function tabs() {
  const all = [...document.querySelectorAll("[role=tab]")];
  const select = (tab) => {
    for (const one of all) {
      const chosen = one === tab;
      one.setAttribute("aria-selected", chosen);
      one.tabIndex = chosen ? 0 : -1;
      $(one.getAttribute("aria-controls")).hidden = !chosen;
    }
    tab.dispatchEvent(new Event("shown"));
  };
  all.forEach((tab, i) => {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = all.filter((one) => !one.hidden);
      const chosen = next[(next.indexOf(tab) + step + next.length) % next.length];
      select(chosen);
      chosen.focus();
    });
  });
  if (location.hash === "#lab") select($("tab-lab"));
  return select;
}

async function begin() {
  const select = tabs();
  const answer = await fetch(at("models"));
  if (!answer.ok) return say(`Cannot list the models: ${await problem(answer)}.`);
  cards = (await answer.json()).models;
  $("model").replaceChildren(...cards.map((one) => new Option(one.name, one.name)));
  if (!cards.length) {
    $("tab-predict").hidden = true;
    select($("tab-lab"));
  }
  describe();
  document.body.dataset.ready = "yes";
}

$("model").addEventListener("change", () => { describe(); $("results").hidden = true; });
$("output").addEventListener("change", histogram);
$("more").addEventListener("click", more);
$("file").addEventListener("change", () => choose($("file").files[0]));
$("question").addEventListener("submit", (event) => { event.preventDefault(); predict(); });
$("smiles").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) predict();
});
$("download").addEventListener("click", () => {
  const address = URL.createObjectURL(new Blob([table.text], { type: "text/csv" }));
  element("a", "", { href: address, download: "predictions.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
});
for (const name of ["dragover", "dragleave", "drop"])
  document.addEventListener(name, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", name === "dragover");
    if (name === "drop" && event.dataTransfer.files.length) {
      $("file").files = event.dataTransfer.files;
      choose($("file").files[0]);
      predict();
    }
  });
begin();
