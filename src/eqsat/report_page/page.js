"use strict";
// The page's script: draws the two graphs on canvases, finds nodes, tells of them, sorts tables.
// Whatever comes from the data is put on the page as text, never as HTML.

const graphs = JSON.parse(document.getElementById("data").textContent).map(columns => new Graph(columns));
const byId = id => document.getElementById(id);
const NAMES = [...document.querySelectorAll("figure.graph figcaption")].map(caption => caption.textContent.toLowerCase());
const { rule: RULE, colouring: COLOURING } = document.body.dataset; // what the column of rules tells, and what is coloured first

/** The columns of a graph, read by node. */
function Graph(columns) {
  Object.assign(this, columns);
  const s = columns.strings;
  this.count = columns.kind.length;
  this.say = (column, node) => s[columns[column][node]];
  this.text = node => columns.lines[node].map(line => s[line]);
  this.haystack = Array.from({ length: this.count }, (_, node) =>
    [...this.text(node), ...["type", "name", "constants", "rule"].map(column => this.say(column, node))].join("\n").toLowerCase());
  this.inputs = Array.from({ length: this.count }, () => []);
  this.outputs = Array.from({ length: this.count }, () => []);
  for (let edge = 0; edge < columns.edges.length; edge += 2) {
    const [source, target] = [columns.edges[edge], columns.edges[edge + 1]];
    this.inputs[target].push(source);
    this.outputs[source].push(target);
  }
  this.named = new Map();
  for (let node = 0; node < this.count; node++) {
    const name = this.say("name", node);
    if (name && !this.named.has(name)) this.named.set(name, node);
  }
}

// ---- colours: those of the style sheet, so that they follow light and dark

const dark = matchMedia("(prefers-color-scheme: dark)");
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "soft", "line", "edge", "frame", "card", "cool", "hot", "box-ink", "operator", "variable", "constant", "other", "found", "chosen"];
  colours = Object.fromEntries(names.map(name => [name, style.getPropertyValue("--" + name).trim()]));
  colours.ramp = Array.from({ length: 33 }, (_, step) => mix(colours.cool, colours.hot, step / 32));
}

function mix(from, to, share) {
  const parts = colour => [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
  const [a, b] = [parts(from), parts(to)];
  return `rgb(${a.map((part, index) => Math.round(part + (b[index] - part) * share)).join(" ")})`;
}

let dearest = 0;
for (const graph of graphs) for (const cost of graph.cost) dearest = Math.max(dearest, cost ?? 0);
const ruleNames = [...new Set(graphs.flatMap(graph => graph.rule.map(rule => graph.strings[rule])))].filter(Boolean);

const colourings = {
  cost: (graph, node) => colours.ramp[Math.round(32 * Math.sqrt(dearest ? (graph.cost[node] ?? 0) / dearest : 0))],
  kind: (graph, node) => colours[graph.say("kind", node)] || colours.other,
  rule: (graph, node) => ruleColour(graph.say("rule", node)),
};

function ruleColour(rule) {
  if (!rule || rule === "input") return colours.cool;
  return `hsl(${(ruleNames.indexOf(rule) * 137.5) % 360} 55% ${dark.matches ? 32 : 80}%)`;
}

const legends = {
  cost: () => [swatch("ramp"), `0 to ${dearest.toPrecision(3)}, by its square root`],
  kind: () => ["operator", "variable", "constant", "other"].flatMap(kind => [swatch("", colours[kind]), kind]),
  rule: () => ruleNames.slice(0, 16).flatMap(rule => [swatch("", ruleColour(rule)), rule]),
};

function swatch(kind, colour) {
  const box = make("i", { className: kind });
  if (colour) box.style.background = colour;
  return box;
}

function make(tag, properties = {}, ...inside) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...inside);
  return element;
}

// ---- what is shown: one state for both graphs

const state = { colouring: COLOURING, hits: null, hit: -1, chosen: null };

/** A graph on a canvas that one can pan and zoom. */
class View {
  constructor(figure, index) {
    this.graph = graphs[index];
    this.index = index;
    this.canvas = make("canvas", { tabIndex: 0 });
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `The graph ${NAMES[index]}, ${this.graph.count} nodes. Search lists nodes as text.`);
    this.zoomed = make("span", { className: "zoom" });
    const button = (label, told, act) => {
      const made = make("button", { type: "button", textContent: label, onclick: act });
      made.setAttribute("aria-label", `${told}, graph ${NAMES[index]}`);
      return made;
    };
    figure.querySelector("figcaption").append(this.zoomed,
      button("−", "Zoom out", () => this.zoom(1 / 1.4)), button("+", "Zoom in", () => this.zoom(1.4)), button("Fit", "Show all", () => this.fit()));
    figure.append(this.canvas);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.canvas);
  }

  listen() {
    const canvas = this.canvas;
    let from = null;
    canvas.addEventListener("pointerdown", event => {
      from = { x: event.offsetX, y: event.offsetY, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      if (!from) return;
      const [dx, dy] = [event.offsetX - from.x, event.offsetY - from.y];
      if (!from.moved && Math.hypot(dx, dy) < 4) return;
      from = { x: event.offsetX, y: event.offsetY, moved: true };
      this.pan(dx, dy);
    });
    canvas.addEventListener("pointerup", event => {
      if (from && !from.moved) choose(this.index, this.at(event.offsetX, event.offsetY));
      from = null;
    });
    canvas.addEventListener("pointercancel", () => { from = null; });
    canvas.addEventListener("wheel", event => {
      if (document.activeElement !== canvas && !event.ctrlKey) return; // let the page scroll
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
    }, { passive: false });
    const step = 60;
    const keys = {
      ArrowLeft: () => this.pan(step, 0), ArrowRight: () => this.pan(-step, 0),
      ArrowUp: () => this.pan(0, step), ArrowDown: () => this.pan(0, -step),
      "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), 0: () => this.fit(),
      n: () => goToHit(state.hit + 1), p: () => goToHit(state.hit - 1), Escape: () => choose(this.index, -1),
    };
    canvas.addEventListener("keydown", event => {
      const act = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
      if (act) { event.preventDefault(); act(); }
    });
  }

  resize() {
    const ratio = devicePixelRatio || 1;
    const first = !this.width;
    [this.width, this.height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    [this.canvas.width, this.canvas.height] = [this.width * ratio, this.height * ratio];
    first ? this.start() : this.draw();
  }

  /** All of it where that is readable, else its first input. */
  start() {
    this.fit();
    if (this.scale >= 0.4) return;
    const first = Array.from({ length: this.graph.count }, (_, node) => node).find(node => this.graph.say("kind", node) === "variable") ?? 0;
    const [x, y, width] = this.graph.place.slice(4 * first, 4 * first + 3);
    this.scale = 0.7;
    this.left = x + width / 2 - this.width / this.scale / 2;
    this.top = y - 40;
    this.draw();
  }

  fit() {
    const { width, height } = this.graph;
    this.scale = Math.min(1.5, this.width / (width || 1), this.height / (height || 1));
    this.left = (width - this.width / this.scale) / 2;
    this.top = (height - this.height / this.scale) / 2;
    this.draw();
  }

  pan(dx, dy) {
    this.left -= dx / this.scale;
    this.top -= dy / this.scale;
    this.draw();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(4, Math.max(1e-4, this.scale * factor));
    this.left += x / this.scale - x / scale;
    this.top += y / this.scale - y / scale;
    this.scale = scale;
    this.draw();
  }

  show(node) {
    const [x, y, width, height] = this.graph.place.slice(4 * node, 4 * node + 4);
    this.scale = Math.max(this.scale, 0.8);
    this.left = x + width / 2 - this.width / this.scale / 2;
    this.top = y + height / 2 - this.height / this.scale / 2;
    this.draw();
  }

  at(px, py) {
    const [x, y, place] = [this.left + px / this.scale, this.top + py / this.scale, this.graph.place];
    for (let node = this.graph.count - 1; node >= 0; node--) {
      const at = 4 * node;
      if (x >= place[at] && y >= place[at + 1] && x <= place[at] + place[at + 2] && y <= place[at + 1] + place[at + 3]) return node;
    }
    return -1;
  }

  /** Ask for a drawing before the next frame; many asks are one. */
  draw() {
    this.zoomed.textContent = `${(this.scale * 100).toPrecision(this.scale < 0.01 ? 2 : 3)} %`;
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.paint(); });
  }

  paint() {
    const pen = this.canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    const zoom = this.scale * ratio;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.setTransform(zoom, 0, 0, zoom, -this.left * zoom, -this.top * zoom);
    this.seen = { left: this.left, top: this.top, right: this.left + this.width / this.scale, bottom: this.top + this.height / this.scale };
    this.paintFrames(pen);
    this.paintEdges(pen);
    this.paintNodes(pen);
  }

  sees(x, y, width, height) {
    return x <= this.seen.right && y <= this.seen.bottom && x + width >= this.seen.left && y + height >= this.seen.top;
  }

  paintFrames(pen) {
    pen.font = "bold 12px ui-monospace, monospace";
    for (const [x, y, width, height, title] of this.graph.frames) {
      if (!this.sees(x, y, width, height)) continue;
      pen.fillStyle = colours.frame;
      pen.strokeStyle = colours.line;
      pen.fillRect(x, y, width, height);
      pen.strokeRect(x, y, width, height);
      pen.fillStyle = colours.soft;
      if (this.scale > 0.3) pen.fillText(this.graph.strings[title], x + 10, y + 16);
    }
  }

  paintEdges(pen) {
    const { edges, place, labels, strings } = this.graph;
    pen.lineWidth = Math.max(1, 0.7 / this.scale);
    pen.font = "11px system-ui, sans-serif";
    const strong = state.chosen && state.chosen.view === this.index ? state.chosen.node : -1;
    pen.strokeStyle = colours.edge;
    pen.beginPath();
    for (let edge = 0; edge < edges.length; edge += 2) this.trace(pen, edges[edge], edges[edge + 1]);
    pen.stroke();
    if (strong >= 0) {
      pen.strokeStyle = colours.chosen;
      pen.lineWidth = Math.max(2.5, 1.5 / this.scale);
      pen.beginPath();
      for (const source of this.graph.inputs[strong]) this.trace(pen, source, strong);
      for (const target of this.graph.outputs[strong]) this.trace(pen, strong, target);
      pen.stroke();
    }
    if (this.scale < 0.3) return;
    pen.fillStyle = colours.soft;
    labels.forEach((label, index) => {
      if (!strings[label]) return;
      const target = 4 * edges[2 * index + 1];
      pen.fillText(strings[label], place[target] + place[target + 2] / 2 + 5, place[target + 1] - 6);
    });
  }

  /** A curve from below the source to above the target; one that passes other layers keeps to the side. */
  trace(pen, source, target) {
    const place = this.graph.place;
    const [s, t] = [4 * source, 4 * target];
    const [x0, y0] = [place[s] + place[s + 2] / 2, place[s + 1] + place[s + 3]];
    const [x1, y1] = [place[t] + place[t + 2] / 2, place[t + 1]];
    const span = y1 - y0;
    const aside = span > 70 && Math.abs(x1 - x0) < 60 ? Math.max(place[s + 2], place[t + 2]) / 2 + Math.min(160, 0.12 * span) : 0;
    if (!this.sees(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0) + 1.4 * aside + 1, Math.abs(span) + 1)) return;
    const bend = Math.max(12, aside ? Math.min(span / 2, 90) : span / 2);
    pen.moveTo(x0, y0);
    if (aside) {
      const side = Math.max(x0, x1) + aside;
      const middle = (y0 + y1) / 2;
      pen.bezierCurveTo(x0, y0 + bend, side, y0 + bend / 2, side, middle);
      pen.bezierCurveTo(side, y1 - bend / 2, x1, y1 - bend, x1, y1);
    } else {
      pen.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
    }
    if (this.scale < 0.3) return;
    pen.moveTo(x1 - 4, y1 - 7);
    pen.lineTo(x1, y1);
    pen.lineTo(x1 + 4, y1 - 7);
  }

  paintNodes(pen) {
    const { graph, index } = this;
    const colour = colourings[state.colouring];
    const partner = partnerOf(state.chosen);
    const found = state.hits && new Set(state.hits.filter(hit => hit.view === index).map(hit => hit.node));
    pen.font = "12px ui-monospace, monospace";
    pen.textAlign = "center";
    for (let node = 0; node < graph.count; node++) {
      const [x, y, width, height] = [graph.place[4 * node], graph.place[4 * node + 1], graph.place[4 * node + 2], graph.place[4 * node + 3]];
      if (!this.sees(x, y, width, height)) continue;
      pen.globalAlpha = found && !found.has(node) ? 0.35 : 1;
      pen.fillStyle = colour(graph, node);
      pen.fillRect(x, y, width, height);
      const chosen = [state.chosen, partner].some(each => each && each.view === index && each.node === node);
      pen.strokeStyle = chosen ? colours.chosen : found?.has(node) ? colours.found : colours.edge;
      pen.lineWidth = chosen || found?.has(node) ? Math.max(3, 2 / this.scale) : 1;
      pen.strokeRect(x, y, width, height);
      if (this.scale > 0.3) {
        pen.fillStyle = colours["box-ink"];
        graph.text(node).forEach((line, row) => pen.fillText(line, x + width / 2, y + 18 + 16 * row));
      }
    }
    pen.globalAlpha = 1;
    pen.textAlign = "start";
  }
}

const views = [...document.querySelectorAll("figure.graph")].map((figure, index) => new View(figure, index));
const redraw = () => views.forEach(view => view.width && view.draw());

// ---- the chosen node

function title(view, node) {
  const graph = graphs[view];
  const name = graph.say("name", node);
  return graph.text(node)[0] + (name ? `  ${name}` : "");
}

/** The node of the other graph that is proved equal to one. */
function partnerOf(chosen) {
  const node = chosen ? graphs[chosen.view].partner?.[chosen.node] ?? -1 : -1;
  return node < 0 ? null : { view: 1 - chosen.view, node };
}

function choose(view, node) {
  state.chosen = node < 0 ? null : { view, node };
  tell();
  redraw();
}

function goTo(view, node) {
  choose(view, node);
  views[view].show(node);
}

function link(view, node) {
  return make("button", { type: "button", textContent: title(view, node), onclick: () => goTo(view, node) });
}

function tell() {
  const panel = byId("details");
  if (!state.chosen) {
    panel.replaceChildren(make("p", { textContent: "Choose a node to see its type, its cost and what it is connected to." }));
    return;
  }
  const { view, node } = state.chosen;
  const graph = graphs[view];
  const rows = [
    ["graph", NAMES[view]],
    ["type", graph.say("type", node)],
    ["attributes", graph.text(node).slice(1).join("\n")],
    ["constants", graph.say("constants", node)],
    ["cost", graph.cost[node] === null ? "not known" : graph.cost[node].toPrecision(5)],
    [RULE, graph.say("rule", node)],
    ["takes", graph.inputs[node].map(source => link(view, source))],
    ["goes to", graph.outputs[node].map(target => link(view, target))],
  ];
  const partner = partnerOf(state.chosen);
  const other = graphs[1 - view].named.get(graph.say("name", node));
  if (partner) rows.push([`equal to, in ${NAMES[partner.view]}`, [link(partner.view, partner.node)]]);
  else if (other !== undefined) rows.push([`same value ${NAMES[1 - view]}`, [link(1 - view, other)]]);
  const list = make("dl");
  for (const [name, value] of rows) {
    if (value.length) list.append(make("dt", { textContent: name }), make("dd", {}, ...(Array.isArray(value) ? value : [value])));
  }
  panel.replaceChildren(make("h3", { textContent: title(view, node) }), list);
}

// ---- search

const SHOWN = 200;

function search(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  state.hits = wanted.length ? [] : null;
  state.hit = -1;
  if (wanted.length) {
    graphs.forEach((graph, view) => {
      for (let node = 0; node < graph.count; node++) {
        if (wanted.every(word => graph.haystack[node].includes(word))) state.hits.push({ view, node });
      }
    });
  }
  listHits();
  redraw();
}

function listHits() {
  const hits = state.hits ?? [];
  document.querySelector(".found").hidden = !state.hits;
  const more = hits.length > SHOWN ? `, the first ${SHOWN} are listed` : "";
  const count = view => hits.filter(hit => hit.view === view).length;
  byId("found").textContent = `${count(0)} found before, ${count(1)} after${more}`;
  byId("hits").replaceChildren(...hits.slice(0, SHOWN).map((hit, index) => {
    const button = make("button", { type: "button", textContent: `${NAMES[hit.view]}: ${title(hit.view, hit.node)}  ${graphs[hit.view].say("type", hit.node)}` });
    button.onclick = () => goToHit(index);
    return make("li", {}, button);
  }));
}

function goToHit(index) {
  const count = state.hits?.length ?? 0;
  if (!count) return;
  byId("hits").querySelector("[aria-current]")?.removeAttribute("aria-current");
  state.hit = (index + count) % count;
  const button = byId("hits").children[state.hit]?.firstChild;
  button?.setAttribute("aria-current", "true");
  button?.scrollIntoView({ block: "nearest" });
  goTo(state.hits[state.hit].view, state.hits[state.hit].node);
}

byId("search").addEventListener("input", event => search(event.target.value));
byId("search").addEventListener("keydown", event => {
  if (event.key === "Enter") goToHit(state.hit + (event.shiftKey ? -1 : 1));
  if (event.key === "Escape") { event.target.value = ""; search(""); }
});

// ---- colouring

function colourBy(name) {
  state.colouring = name;
  byId("legend").replaceChildren(...legends[name]());
  redraw();
}

if (ruleNames.length) byId("colouring").append(make("option", { value: "rule", textContent: RULE === "made by" ? "rule that made it" : RULE }));
byId("colouring").value = state.colouring;
byId("colouring").addEventListener("change", event => colourBy(event.target.value));
const recolour = () => { readColours(); colourBy(state.colouring); };
dark.addEventListener("change", recolour);
recolour();

// ---- tables and parts

for (const section of document.querySelectorAll("main > section")) {
  document.querySelector("nav").append(make("a", { href: `#${section.id}`, textContent: section.querySelector("h2").textContent }), " ");
}

const valueOf = cell => cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.firstChild?.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compare(valueOf(a.cells[column]), valueOf(b.cells[column])) * (down ? -1 : 1));
      table.tBodies[0].append(...rows);
    });
  });
}
