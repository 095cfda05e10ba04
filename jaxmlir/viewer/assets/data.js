// The data of the page, unpacked part by part, and functions that put it into words.
"use strict";

/** An element; strings are only inserted as text. */
function h(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "rect", "text", "title", "line"].includes(tag);
  const element = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

const $ = (id) => document.getElementById(id);

/** A part of the data: JSON, compressed, in Base64. */
async function unpack(id) {
  const packed = Uint8Array.from(atob($(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

let about; // the tables, and the names of all parts
const parts = new Map();

function part(id) {
  if (!parts.has(id)) parts.set(id, unpack(id));
  return parts.get(id);
}

async function form(number) {
  const key = `as-form-${number}`;
  if (!parts.has(key)) parts.set(key, part(`form-${number}`).then((data) => new Form(data)));
  return parts.get(key);
}

/** The text of each function after a stage, by name. */
async function textsAfter(stage) {
  while (about.stages[stage].functions === null) stage--;
  const found = new Map();
  for (const [name, [at, index]] of Object.entries(about.stages[stage].functions)) {
    found.set(name, (await part(`stage-${at}`))[index]);
  }
  return found;
}

/** A program, with tables to look things up in. */
class Form {
  constructor(data) {
    this.entry = data.entry;
    this.timelines = data.timelines;
    this.cost = data.cost;
    this.functions = data.functions.map((f, index) => new Fn(f, index));
    this.byName = new Map(this.functions.map((f) => [f.name, f]));
  }

  get ops() {
    return this.functions.reduce((sum, f) => sum + f.names.length, 0);
  }

  get peak() {
    return most(this.timelines[this.entry].bytes);
  }
}

/** A function: columns of its ops, and its text. */
class Fn {
  constructor(data, index) {
    Object.assign(this, data);
    this.index = index;
    this.lines = data.text.lines;
    this.places = data.text.places;
    this.opOfLine = new Int32Array(this.lines.length).fill(-1);
    this.text.ops.forEach((line, op) => (this.opOfLine[line] = op));
    const shares = [0, 2].map((column) => {
      const numbers = this.costs.map((cost) => (Number.isFinite(cost?.[column]) ? cost[column] : 0));
      const all = most(numbers) || 1;
      return numbers.map((n) => n / all);
    });
    /** The relative cost of each op, from 0 to 1 for the costliest of the function. */
    this.heat = shares[0].map((share, op) => Math.max(share, shares[1][op]));
    this.kept = new Set(this.stored);
  }

  get callees() {
    return [...new Set(Object.values(this.calls).flat())];
  }

  lineOf(op) {
    return op < 0 ? 0 : this.text.ops[op] ?? 0;
  }

  /** The op that computes each value; -1 for arguments. */
  get makers() {
    const found = new Int32Array(this.types.length).fill(-1);
    this.results.forEach(([first, last], op) => found.fill(op, first, last));
    Object.defineProperty(this, "makers", { value: found });
    return found;
  }

  resultTypes(op) {
    const [first, last] = this.results[op];
    return this.types.slice(first, last).map((t) => about.types[t]);
  }
}

/** The greatest of some numbers, at least 0. */
const most = (numbers) => numbers.reduce((a, b) => Math.max(a, b), 0);

// --- words ---

/** A number in the largest unit that it reaches; null if none. Units fall by a factor each. */
function inUnits(n, units, factor) {
  const i = units.findIndex((_, i) => n >= factor ** (units.length - i));
  return i < 0 ? null : `${+(n / factor ** (units.length - i)).toPrecision(3)} ${units[i]}`;
}

// Symbolic numbers are text.
const amount = (n) => inUnits(n, ["G", "M", "k"], 1000) ?? String(n);
const inBytes = (n) => inUnits(n, ["GiB", "MiB", "KiB"], 1024) ?? plural(n, "byte");
const plural = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
const shortName = (name) => name.replace(/^jaxpr[.-]/, "");
const baseName = (file) => file.replace(/^.*[/\\]/, "");

/** File, line and column of a position; null if it has none. */
function positionOf(number) {
  const [file, line, column] = about.positions[number];
  return line ? { file, line, column, name: `${baseName(about.files[file])}:${line}` } : null;
}

/** The user's position of a place. */
function userPosition(place) {
  const frames = about.places[place][1];
  return frames.length ? positionOf(frames[0]) : null;
}

const sourceLine = (position) => about.source[position.file]?.[position.line] ?? "";
