"use strict";
/* Connects the page's controls to the drawing. */

async function begin() {
  const place = document.getElementById("trees-here");
  if (!place) return;
  const head = JSON.parse(document.getElementById("trees-head").textContent);
  const forest = await Forest.read(head, document.getElementById("trees-data").textContent);
  const status = document.getElementById("trees-status");
  const says = (text) => (status.textContent = text);
  const drawing = new Drawing(forest, document.getElementById("tree-canvas"), says);
  const by = (id) => document.getElementById(id);
  const number = by("tree-number");
  const text = by("tree-text");
  const opened = by("tree-as-text");
  const writeText = () => (text.textContent = opened.open ? drawing.text() : "");
  const show = (tree) => {
    const wanted = Math.min(forest.nTrees, Math.max(1, Math.round(tree) || 1));
    number.value = wanted;
    drawing.show(wanted - 1);
    writeText();
    const owner = forest.head.owners[wanted - 1];
    says(`Tree ${wanted} of ${forest.nTrees}${owner === undefined ? "" : `, party ${owner}`}.`);
  };
  if (forest.head.owners.length) says(`Tree 1, party ${forest.head.owners[0]}.`);
  number.max = forest.nTrees;
  number.addEventListener("change", () => show(Number(number.value)));
  by("tree-before").addEventListener("click", () => show(Number(number.value) - 1));
  by("tree-after").addEventListener("click", () => show(Number(number.value) + 1));
  by("tree-open").addEventListener("click", () => drawing.openOneLevel());
  by("tree-close").addEventListener("click", () => drawing.closeAll());
  by("tree-in").addEventListener("click", () => drawing.zoomBy(1.25));
  by("tree-out").addEventListener("click", () => drawing.zoomBy(0.8));
  by("tree-fit").addEventListener("click", () => drawing.fit());
  opened.addEventListener("toggle", writeText);
  const seek = by("tree-seek");
  seek.addEventListener("input", () => {
    const n = drawing.seek(seek.value);
    says(seek.value ? `${n} ${n === 1 ? "node uses" : "nodes use"} it in this tree. Press Enter for the next.` : "");
  });
  seek.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      drawing.nextMatch();
    }
  });
  legend(forest, by("tree-legend"));
  rowForm(forest, drawing, by("row-form"));
  document.documentElement.dataset.ready = "yes"; // the page's tests wait for it
}

function legend(forest, place) {
  (forest.head.classes ?? []).forEach((name, output) => {
    const spot = svg("svg", { class: "spot", "aria-hidden": "true" });
    const whole = svg("rect", { width: "100%", height: "100%" });
    whole.style.fill = fill(output);
    spot.append(whole);
    place.append(element("span", { class: "key" }, spot, String(name)));
  });
}

/* A form with a field for every column that a split uses; an empty field is a missing value. */
function rowForm(forest, drawing, form) {
  const uses = forest.uses();
  const asked = uses.map((n, i) => [n, i]).filter(([n]) => n > 0).sort((a, b) => b[0] - a[0]).map(([, i]) => i);
  const fields = new Map();
  const grid = element("div", { class: "fields" });
  for (const i of asked) {
    const field = fieldOf(forest, i);
    fields.set(i, field);
    grid.append(element("label", {}, element("span", {}, forest.columns[i].name), field));
  }
  const output = element("div", { class: "answer", "aria-live": "polite" });
  const button = element("button", { type: "submit" }, "Follow this row");
  const clear = element("button", { type: "button" }, "Stop following");
  form.append(grid, element("p", {}, button, " ", clear), output);
  clear.addEventListener("click", () => {
    drawing.follow(null);
    output.replaceChildren();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const row = new Array(forest.columns.length).fill(null);
    for (const [i, field] of fields) row[i] = field.value === "" ? null : field.type === "date" ? Date.parse(field.value) / DAY : Number(field.value);
    drawing.follow(row);
    output.replaceChildren(...answer(forest, row, fields));
  });
}

function fieldOf(forest, i) {
  const column = forest.columns[i];
  const choices = column.categories ?? (column.kind === "boolean" ? ["no", "yes"] : null);
  if (choices) {
    const options = choices.map((name, value) => element("option", { value }, name));
    return element("select", {}, ...options, element("option", { value: "" }, "(missing)"));
  }
  if (column.is_date) return element("input", { type: "date", value: column.middle === null ? "" : dateOf(column.middle) });
  return element("input", { type: "number", step: "any", value: column.middle, placeholder: "missing" });
}

const brief = (x) => String(Number(x.toPrecision(3)));

function answer(forest, row, fields) {
  const predicted = forest.predicted(row);
  const said = element("p", {}, "The drawn trees predict: ", element("strong", {}, outcomeOf(forest, predicted)), ".");
  const output = forest.head.classes ? predicted.indexOf(Math.max(...predicted)) : 0;
  const { base, phi } = contributions(forest, row, output);
  const ranked = [...fields.keys()].sort((a, b) => Math.abs(phi[b]) - Math.abs(phi[a])).slice(0, 12);
  const most = Math.max(...ranked.map((i) => Math.abs(phi[i])), 1e-12);
  const lines = ranked.map((i) => {
    const bar = element("span", { class: phi[i] < 0 ? "bar less" : "bar", "aria-hidden": "true" });
    bar.style.width = `${(100 * Math.abs(phi[i])) / most}%`;
    const shown = (phi[i] >= 0 ? "+" : "−") + brief(Math.abs(phi[i]));
    return element("tr", {}, element("th", { scope: "row" }, forest.columns[i].name), element("td", { "data-label": "adds" }, shown), element("td", { class: "bars" }, bar));
  });
  const what = forest.head.classes ? `the share of ${forest.head.classes[output]}` : forest.head.label;
  const caption = `Why: SHAP values of ${what}. From ${brief(base)}, the mean over training rows, to ${brief(predicted[output])}`;
  const table = element("table", { class: "shap" }, element("caption", {}, caption), element("tbody", {}, ...lines));
  return [said, element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "SHAP values" }, table)];
}

begin().catch((error) => {
  const status = document.getElementById("trees-status");
  if (status) status.textContent = `This browser cannot draw the trees (${error.message}).`;
});
