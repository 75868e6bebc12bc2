"use strict";
// What the page is about, and elements made of it.

/** The columns of a graph, read by node. */
class Graph {
  constructor(columns) {
    Object.assign(this, columns);
    this.count = columns.kind.length;
    this.inputs = Array.from({ length: this.count }, () => []);
    this.outputs = Array.from({ length: this.count }, () => []);
    for (let edge = 0; edge < columns.edges.length; edge += 2) {
      const [source, target] = [columns.edges[edge], columns.edges[edge + 1]];
      this.inputs[target].push(source);
      this.outputs[source].push(target);
    }
    this.haystack = Array.from({ length: this.count }, (_, node) =>
      [...this.text(node), ...["type", "name", "constants", "rule"].map(column => this.say(column, node))].join("\n").toLowerCase());
    this.named = new Map();
    for (let node = this.count - 1; node >= 0; node--) if (this.say("name", node)) this.named.set(this.say("name", node), node);
  }

  say(column, node) { return this.strings[this[column][node]]; }

  text(node) { return this.lines[node].map(line => this.strings[line]); }
}

const byId = id => document.getElementById(id);
const graphs = JSON.parse(byId("data").textContent).map(columns => new Graph(columns));
const steps = graphs[0].steps ?? []; // what each step tells, and its nodes in each graph
const NAMES = [...document.querySelectorAll("figure.graph figcaption")].map(caption => caption.textContent.toLowerCase());
const { rule: RULE, colouring: COLOURING } = document.body.dataset; // what the column of rules tells, and what is coloured first

function make(tag, properties = {}, ...inside) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...inside);
  return element;
}
