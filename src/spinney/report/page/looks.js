"use strict";
/* The parts of a drawing: elements, distinguishable colours, text that fits. */

const COLOURS = ["#0072b2", "#b86e00", "#009e73", "#cc79a7", "#4393c3", "#d55e00", "#8a7a00", "#767676"];
const TEXTURES = ["", "M0 6L6 0", "M0 3H6", "M0 0L6 6M0 6L6 0"]; // drawn on the colours of later classes
const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const colour = (output) => COLOURS[output % COLOURS.length];
const texture = (output) => TEXTURES[Math.floor(output / COLOURS.length) % TEXTURES.length];
const fill = (output) => (texture(output) ? `url(#class-${output})` : colour(output));

/* Patterns for the classes that share a colour with an earlier one; the first eight need none. */
function patterns(nClasses) {
  const made = svg("defs", {});
  for (let output = COLOURS.length; output < nClasses; output++) {
    const pattern = svg("pattern", { id: `class-${output}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" });
    const ground = svg("rect", { width: 6, height: 6, class: "share" });
    ground.style.fill = colour(output);
    pattern.append(ground, svg("path", { d: texture(output), class: "texture" }));
    made.append(pattern);
  }
  return made;
}

const pen = document.createElement("canvas").getContext("2d");
pen.font = "12px system-ui, sans-serif"; // as in page.css

/* As much of a text as fits into the given number of pixels. */
function clipped(text, width) {
  const fits = (shown) => pen.measureText(shown).width <= width;
  if (text.length < 1000 && fits(text)) return text;
  const letters = Array.from(text.slice(0, 1000)); // far more than a line holds
  let [some, many] = [0, letters.length]; // `some` letters fit, `many` do not
  while (many - some > 1) {
    const middle = (some + many) >> 1;
    if (fits(`${letters.slice(0, middle).join("")}…`)) some = middle;
    else many = middle;
  }
  return `${letters.slice(0, some).join("")}…`;
}

/* A question in one line: the column's name is shortened before the condition. */
function clippedQuestion([column, asked], width) {
  const both = `${column} ${asked}`;
  if (pen.measureText(both).width <= width) return both;
  const end = clipped(asked, width * 0.6);
  const rest = width - pen.measureText(` ${end}`).width;
  const begin = clipped(column, rest);
  return `${begin} ${clipped(asked, width - pen.measureText(`${begin} `).width)}`;
}
