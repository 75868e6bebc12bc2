"use strict";
// What the page is about, and elements made of it.

/** The columns of a graph, read by node. */
class Graph {
  constructor(columns) {
    Object.assign(this, columns);
    this.count = columns.kind.length;
    this.inputs = Array.from({ length: this.count }, () => []);
    this.outputs = Array.from({ length: this.count }, () => []);
    this.inputLabels = Array.from({ length: this.count }, () => []);
    for (let edge = 0; edge < columns.edges.length; edge += 2) {
      const [source, target] = [columns.edges[edge], columns.edges[edge + 1]];
      this.inputs[target].push(source);
      this.outputs[source].push(target);
      this.inputLabels[target].push(columns.labels[edge / 2]);
    }
    this.named = new Map();
    for (let node = this.count - 1; node >= 0; node--) if (this.say("name", node)) this.named.set(this.say("name", node), node);
  }

  say(column, node) { return this.strings[this[column][node]]; }

  /** All that is told of a node, to be searched. */
  haystack(node) {
    return [...this.text(node), ...["type", "name", "constants", "rule"].map(column => this.say(column, node))].join("\n").toLowerCase();
  }

  text(node) { return this.lines[node].map(line => this.strings[line]); }
}

const byId = id => document.getElementById(id);
const graphs = JSON.parse(byId("data").textContent).map(columns => new Graph(columns));
const given = [...graphs]; // as they are, whichever step is shown
const steps = graphs[0].steps ?? []; // from the one graph to the other: see steps.py
const NAMES = [...document.querySelectorAll("figure.graph figcaption")].map(caption => caption.textContent.toLowerCase());
const { rule: RULE, colouring: COLOURING } = byId("graphs").dataset; // what the column of rules tells, and what is coloured first

function make(tag, properties = {}, ...inside) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...inside);
  return element;
}

/**
 * The graph after some of the steps; its nodes have the numbers that steps give them in `numbers`.
 * Nodes of the second graph have numbers from the size of the first on.
 */
function graphAfter(done) {
  const [before, after] = given;
  const first = before.count;
  if (done === steps.length) return Object.assign(after, { numbers: after.kept.map((kept, node) => (kept < 0 ? first + node : kept)) });
  const inputs = new Map(before.inputs.entries());
  for (const step of steps.slice(0, done)) {
    for (const node of step.minus) inputs.delete(node);
    for (const [node, sources] of step.inputs) inputs.set(node, sources);
  }
  const numbers = inputsFirst(inputs);
  const at = new Map(numbers.map((number, node) => [number, node]));
  const shift = before.strings.length;
  const strings = [...before.strings, ...after.strings, "input", ""];
  const column = (name, read) => numbers.map(number => (number < first ? read(before[name][number], 0) : read(after[name][number - first], shift)));
  const frames = [...before.frames, ...after.frames.map(([parent, title]) => [parent < 0 ? -1 : parent + before.frames.length, title + shift])];
  const parent = column("parent", (frame, side) => (frame < 0 ? -1 : frame + (side ? before.frames.length : 0)));
  const used = new Set();
  for (let frame of parent) for (; frame >= 0 && !used.has(frame); frame = frames[frame][0]) used.add(frame);
  const kept = [...used].sort((a, b) => a - b);
  const place = frame => (frame < 0 ? -1 : kept.indexOf(frame));
  const word = (string, side) => string + side;
  const labels = number => (number < first ? before.inputLabels[number] : after.inputLabels[number - first].map(label => label + shift));
  const edges = numbers.flatMap((number, node) => inputs.get(number).map((source, input) => [at.get(source), node, labels(number)[input] ?? strings.length - 1]));
  return new Graph({
    strings, numbers,
    frames: kept.map(frame => [place(frames[frame][0]), frames[frame][1]]),
    parent: parent.map(place),
    lines: column("lines", (lines, side) => lines.map(line => line + side)),
    ...Object.fromEntries(["kind", "type", "name", "constants"].map(name => [name, column(name, word)])),
    rule: numbers.map(number => (number < first ? strings.length - 2 : after.rule[number - first] + shift)),
    cost: column("cost", cost => cost),
    class: column("class", index => index),
    partner: numbers.map(number => (number < first ? number : after.partner[number - first])),
    edges: edges.flatMap(([source, target]) => [source, target]),
    labels: edges.map(([, , label]) => label),
  });
}

/** The nodes of a graph, each after those that it takes. */
function inputsFirst(inputs) {
  const [begun, found] = [new Set(), new Set()];
  const stack = [...inputs.keys()].toReversed();
  while (stack.length) {
    const node = stack.at(-1);
    const next = begun.has(node) ? [] : inputs.get(node).filter(source => !begun.has(source));
    begun.add(node);
    if (next.length) stack.push(...next.toReversed());
    else found.add(stack.pop());
  }
  return [...found];
}
