"use strict";
// Colours, and a graph on a canvas that one can pan and zoom.

// ---- colours: those of the style sheet, so that they follow light and dark

const PALETTE = 8; // colours of rules in the style sheet; rules with fewer nodes share one
const SAME = ["input", "proved equal"];
const UNKNOWN = "a rule"; // which one is not known
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "soft", "line", "edge", "frame", "card", "cool", "hot", "box-ink", "operator", "variable", "constant", "other",
    "found", "chosen", "gone", "plus", "rest", "ground", "accent", "series1", ...Array.from({ length: PALETTE }, (_, index) => `rule${index}`)];
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

const uses = new Map(); // rule -> nodes of both graphs it tells of
for (const graph of graphs) for (let node = 0; node < graph.count; node++) {
  const rule = graph.say("rule", node);
  if (rule) uses.set(rule, (uses.get(rule) ?? 0) + 1);
}
const ruleNames = [...uses.keys()].filter(rule => !SAME.includes(rule) && rule !== UNKNOWN).sort((a, b) => uses.get(b) - uses.get(a) || (a < b ? -1 : 1));
const rank = new Map(ruleNames.map((rule, index) => [rule, index]));

const colourings = {
  cost: (graph, node) => colours.ramp[Math.round(32 * Math.sqrt(dearest ? (graph.cost[node] ?? 0) / dearest : 0))],
  kind: (graph, node) => colours[graph.say("kind", node)] || colours.other,
  rule: (graph, node) => ruleColour(graph.say("rule", node)),
};

function ruleColour(rule) {
  if (rule === UNKNOWN) return colours.rest;
  if (!rank.has(rule)) return colours.cool;
  return rank.get(rule) < PALETTE ? colours[`rule${rank.get(rule)}`] : colours.rest;
}

/** What tells a rule where its colour does not. */
const ruleMark = rule => (rank.get(rule) < PALETTE ? String(rank.get(rule) + 1) : "");

/** A graph on a canvas. */
class View {
  constructor(figure, index) {
    this.graph = graphs[index];
    this.index = index;
    this.layout = new Layout(this.graph);
    this.opened = []; // groups that are open for the step shown alone
    this.canvas = make("canvas", { tabIndex: 0 });
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `The graph ${NAMES[index]}, ${this.graph.count} nodes. Search lists nodes as text.`);
    this.zoomed = make("span", { className: "zoom" });
    const button = (label, told, act) => {
      const made = make("button", { type: "button", textContent: label, onclick: act });
      made.setAttribute("aria-label", `${told}, graph ${NAMES[index]}`);
      return made;
    };
    this.told = make("span", { className: "count" });
    figure.querySelector("figcaption").append(this.told, this.zoomed,
      button("−", "Zoom out", () => this.zoom(1 / 1.4)), button("+", "Zoom in", () => this.zoom(1.4)), button("Fit", "Show all", () => this.fit()));
    figure.append(this.canvas);
    this.tell();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.canvas);
  }

  tell() {
    const step = this.index && state.step < steps.length ? `, after step ${state.step}` : "";
    this.told.textContent = `${this.graph.count.toLocaleString("en")} nodes${step}`;
  }

  /** Show another graph in the place of this one, with the same groups open. */
  become(graph) {
    if (graph === this.graph) return;
    this.close();
    const layout = new Layout(graph);
    layout.openAs(this.layout);
    this.graph = graphs[this.index] = graph;
    this.layout = layout;
    this.tell();
  }

  /** Close what was opened for a step alone. */
  close() {
    for (const box of this.opened) box.open = false;
    if (this.opened.length) this.layout.place();
    this.opened = [];
  }

  /** Open what hides a node, for as long as its step is shown. */
  visit(node) {
    this.close();
    this.opened = this.layout.reveal(node);
    this.show(node);
  }

  listen() {
    const canvas = this.canvas;
    const touches = new Map();
    let from = null;
    canvas.addEventListener("pointerdown", event => {
      touches.set(event.pointerId, [event.offsetX, event.offsetY]);
      canvas.setPointerCapture(event.pointerId);
      from = { x: event.offsetX, y: event.offsetY, moved: touches.size > 1, map: this.onMap(event.offsetX, event.offsetY) };
      if (from.map) this.toMap(event.offsetX, event.offsetY);
    });
    canvas.addEventListener("pointermove", event => {
      if (!from || !touches.has(event.pointerId)) return;
      const here = [event.offsetX, event.offsetY];
      if (touches.size === 2) return this.pinch(touches, event.pointerId, here);
      touches.set(event.pointerId, here);
      if (from.map) return this.toMap(...here);
      const [dx, dy] = [here[0] - from.x, here[1] - from.y];
      if (!from.moved && Math.hypot(dx, dy) < 4) return;
      from = { x: here[0], y: here[1], moved: true };
      this.pan(dx, dy);
    });
    canvas.addEventListener("pointerup", event => {
      if (from && !from.moved && !from.map) this.click(this.at(event.offsetX, event.offsetY));
      touches.delete(event.pointerId);
      from = null;
    });
    canvas.addEventListener("pointercancel", event => { touches.delete(event.pointerId); from = null; });
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
      f: () => foldAll(false), u: () => foldAll(true), "[": () => stepBy(-1), "]": () => stepBy(1),
    };
    canvas.addEventListener("keydown", event => {
      const act = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
      if (act) { event.preventDefault(); act(); }
    });
  }

  pinch(touches, id, here) {
    const other = [...touches].find(([key]) => key !== id)[1];
    const [x, y] = touches.get(id);
    touches.set(id, here);
    const before = Math.hypot(x - other[0], y - other[1]);
    if (before) this.zoom(Math.hypot(here[0] - other[0], here[1] - other[1]) / before, (here[0] + other[0]) / 2, (here[1] + other[1]) / 2);
  }

  /** A node is chosen, a group opened or closed where it stands. */
  click(index) {
    const box = this.layout.boxes[index];
    if (!box?.members) return choose(this.index, box?.node ?? -1);
    const [x, y] = [box.x, box.y];
    box.open = !box.open;
    this.layout.place();
    this.left += box.x - x;
    this.top += box.y - y;
    this.changed();
  }

  resize() {
    const ratio = devicePixelRatio || 1;
    const first = !this.width;
    [this.width, this.height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    [this.canvas.width, this.canvas.height] = [this.width * ratio, this.height * ratio];
    first ? this.start() : this.draw();
  }

  /** All of it where that is readable, else its top. */
  start() {
    this.showAll();
    if (this.scale < 0.7) {
      this.scale = Math.min(0.9, Math.max(0.7, this.width / this.layout.width));
      this.left = (this.layout.width - this.width / this.scale) / 2;
      this.top = -10;
    }
    this.draw();
  }

  showAll() {
    const { width, height } = this.layout;
    this.scale = Math.min(1.2, this.width / (width || 1), this.height / (height || 1));
    this.left = (width - this.width / this.scale) / 2;
    this.top = (height - this.height / this.scale) / 2;
  }

  fit() {
    for (const view of state.linked ? views : [this]) {
      view.showAll();
      view.draw();
    }
  }

  pan(dx, dy) {
    this.left -= dx / this.scale;
    this.top -= dy / this.scale;
    this.changed();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(4, Math.max(1e-4, this.scale * factor));
    this.left += x / this.scale - x / scale;
    this.top += y / this.scale - y / scale;
    this.scale = scale;
    this.changed();
  }

  /** Draw, and show the same part of the other graph where they move together. */
  changed() {
    this.draw();
    const other = views[1 - this.index];
    if (!state.linked || !other?.width) return;
    const share = [(this.left + this.width / this.scale / 2) / this.layout.width, (this.top + this.height / this.scale / 2) / this.layout.height];
    other.scale = this.scale;
    other.left = share[0] * other.layout.width - other.width / other.scale / 2;
    other.top = share[1] * other.layout.height - other.height / other.scale / 2;
    other.draw();
  }

  show(node) {
    this.layout.reveal(node);
    const { x, y, size } = this.layout.boxes[node];
    this.scale = Math.max(this.scale, 0.8);
    this.left = x + size[0] / 2 - this.width / this.scale / 2;
    this.top = y + size[1] / 2 - this.height / this.scale / 2;
    this.draw();
  }

  at(px, py) {
    const [x, y] = [this.left + px / this.scale, this.top + py / this.scale];
    const { boxes, visible } = this.layout;
    for (let place = visible.length - 1; place >= 0; place--) {
      const box = boxes[visible[place]];
      const height = box.open ? TITLE : box.size[1];
      if (x >= box.x && y >= box.y && x <= box.x + box.size[0] && y <= box.y + height) return visible[place];
    }
    return -1;
  }

  // ---- the map in the corner

  get map() {
    const { width, height } = this.layout;
    if (width * this.scale <= this.width * 1.02 && height * this.scale <= this.height * 1.02) return null;
    const scale = Math.min(this.width * 0.18 / width, (this.height - 20) / height, 0.25);
    return { scale, width: Math.max(8, width * scale), height: Math.max(8, height * scale), x: this.width - Math.max(8, width * scale) - 10, y: 10 };
  }

  onMap(px, py) {
    const map = this.map;
    return Boolean(map) && px >= map.x - 6 && py >= map.y && px <= map.x + map.width + 6 && py <= map.y + map.height;
  }

  toMap(px, py) {
    const map = this.map;
    if (!map) return;
    this.left = (px - map.x) / map.scale - this.width / this.scale / 2;
    this.top = (py - map.y) / map.scale - this.height / this.scale / 2;
    this.changed();
  }

  paintMap(pen) {
    const map = this.map;
    if (!map) return;
    pen.globalAlpha = 0.9;
    pen.fillStyle = colours.ground;
    pen.strokeStyle = colours.line;
    pen.lineWidth = 1;
    pen.fillRect(map.x - 4, map.y - 4, map.width + 8, map.height + 8);
    pen.strokeRect(map.x - 4, map.y - 4, map.width + 8, map.height + 8);
    pen.globalAlpha = 1;
    for (const index of this.layout.visible) {
      const box = this.layout.boxes[index];
      pen.fillStyle = box.open ? colours.frame : box.node === undefined ? colours.edge : this.fillOf(box);
      pen.fillRect(map.x + box.x * map.scale, map.y + box.y * map.scale, Math.max(1.5, box.size[0] * map.scale), Math.max(1, box.size[1] * map.scale));
    }
    pen.strokeStyle = colours.chosen;
    pen.lineWidth = 1.5;
    const clamp = (value, high) => Math.min(Math.max(value, 0), high);
    const [x0, y0] = [clamp(this.left * map.scale, map.width), clamp(this.top * map.scale, map.height)];
    const [x1, y1] = [clamp(this.seen.right * map.scale, map.width), clamp(this.seen.bottom * map.scale, map.height)];
    pen.strokeRect(map.x + x0, map.y + y0, Math.max(4, x1 - x0), Math.max(3, y1 - y0));
  }

  // ---- painting

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
    const { boxes, visible } = this.layout;
    for (const index of visible) if (boxes[index].open) this.paintFrame(pen, boxes[index]);
    this.paintEdges(pen);
    const marked = this.marked();
    for (const index of visible) if (!boxes[index].open) this.paintBox(pen, boxes[index], index, marked);
    pen.globalAlpha = 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paintMap(pen);
  }

  sees(x, y, width, height) {
    return x <= this.seen.right && y <= this.seen.bottom && x + width >= this.seen.left && y + height >= this.seen.top;
  }

  paintFrame(pen, box) {
    const [width, height] = box.size;
    if (!this.sees(box.x, box.y, width, height)) return;
    pen.fillStyle = colours.frame;
    pen.strokeStyle = colours.line;
    pen.lineWidth = box.members ? 1 : 1.5;
    pen.beginPath();
    pen.roundRect(box.x, box.y, width, height, 8);
    pen.fill();
    pen.stroke();
    if (this.scale < 0.25) return;
    pen.font = "600 12px system-ui, sans-serif";
    pen.fillStyle = colours.soft;
    pen.fillText(`${box.members ? "▾ " : ""}${box.title}`, box.x + 10, box.y + 18);
  }

  paintEdges(pen) {
    const strong = state.chosen?.view === this.index ? state.chosen.node : -1;
    const shown = strong < 0 ? -1 : this.layout.shown(strong);
    const draw = (edges, colour, width) => {
      pen.strokeStyle = pen.fillStyle = colour;
      pen.lineWidth = width;
      pen.beginPath();
      for (const edge of edges) this.trace(pen, edge);
      pen.stroke();
    };
    draw(this.layout.edges, colours.edge, Math.max(1.2, 0.7 / this.scale));
    if (shown >= 0) draw(this.layout.edges.filter(edge => edge.source === shown || edge.target === shown), colours.chosen, Math.max(2.5, 1.5 / this.scale));
    if (this.scale < 0.35) return;
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = colours.soft;
    for (const { label, points } of this.layout.edges) if (label) pen.fillText(label, points.at(-1)[0] + 5, points.at(-1)[1] - 8);
  }

  /** A smooth line through an edge's points, and its tip. */
  trace(pen, { points, area }) {
    if (!this.sees(...area)) return;
    const last = points.length - 1;
    pen.moveTo(...points[0]);
    if (last === 1) {
      const [[x0, y0], [x1, y1]] = points;
      const bend = Math.abs(y1 - y0) / 2;
      pen.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
    } else {
      for (let at = 1; at < last; at++) {
        const end = at + 1 === last ? points[last] : [(points[at][0] + points[at + 1][0]) / 2, (points[at][1] + points[at + 1][1]) / 2];
        pen.quadraticCurveTo(...points[at], ...end);
      }
    }
    if (this.scale < 0.3) return;
    const [x, y] = points[last];
    pen.moveTo(x - 4, y - 7);
    pen.lineTo(x, y);
    pen.lineTo(x + 4, y - 7);
  }

  /** The nodes that stand out of this graph: those found, or those of the step shown; null for all. */
  marked() {
    if (state.hits) return new Set(state.hits.filter(hit => hit.view === this.index).map(hit => hit.node));
    return state.marks && state.marks[this.index];
  }

  /** Whether a node is not, or no longer, in the other graph. */
  isGone(node) { return this.index === 0 && (state.gone ? state.gone.has(node) : this.graph.gone?.[node]); }

  fillOf(box) {
    return colourings[state.colouring](this.graph, box.node);
  }

  paintBox(pen, box, index, marked) {
    const [width, height] = box.size;
    if (!this.sees(box.x, box.y, width, height)) return;
    const members = box.members ?? [box.node];
    const found = marked && members.some(node => marked.has(node));
    pen.globalAlpha = marked && !found ? 0.35 : 1;
    const chosen = [state.chosen, partnerOf(state.chosen)].some(each => each && each.view === this.index && this.layout.shown(each.node) === index);
    pen.strokeStyle = chosen ? colours.chosen : found ? colours.found : colours.edge;
    pen.lineWidth = chosen || found ? Math.max(3, 2 / this.scale) : 1;
    pen.beginPath();
    pen.roundRect(box.x, box.y, width, height, 5);
    if (box.node === undefined) this.paintGroup(pen, box);
    else this.paintNode(pen, box);
    if (state.marks?.[this.index].size && members.some(node => state.marks[this.index].has(node))) this.paintBadge(pen, box);
  }

  /** What a step does to a box, told without colours. */
  paintBadge(pen, box) {
    const size = Math.max(9, 7 / this.scale);
    pen.fillStyle = this.index ? colours.plus : colours.gone;
    pen.beginPath();
    pen.arc(box.x, box.y, size, 0, 7);
    pen.fill();
    pen.strokeStyle = colours.card;
    pen.lineWidth = size / 4;
    pen.beginPath();
    pen.moveTo(box.x - size / 2, box.y);
    pen.lineTo(box.x + size / 2, box.y);
    if (this.index) {
      pen.moveTo(box.x, box.y - size / 2);
      pen.lineTo(box.x, box.y + size / 2);
    }
    pen.stroke();
  }

  paintNode(pen, box) {
    const [width, height] = box.size;
    const gone = this.isGone(box.node);
    const fill = this.fillOf(box);
    pen.fillStyle = fill;
    pen.fill();
    if (gone) {
      pen.strokeStyle = pen.strokeStyle === colours.edge ? colours.gone : pen.strokeStyle;
      pen.lineWidth = Math.max(2, pen.lineWidth);
      pen.setLineDash([5, 3]);
    }
    pen.stroke();
    pen.setLineDash([]);
    if (this.scale < 0.25) return;
    if (state.colouring === "rule") {
      pen.font = "700 10px system-ui, sans-serif";
      pen.textAlign = "right";
      pen.fillStyle = colours["box-ink"];
      pen.fillText(ruleMark(this.graph.say("rule", box.node)), box.x + width - 4, box.y + 11);
    }
    pen.textAlign = "center";
    const plain = fill === colours.cool;
    box.lines.forEach((line, row) => {
      const name = box.named && row === box.lines.length - 1;
      pen.font = row || name ? "11px ui-monospace, monospace" : "600 12px ui-monospace, monospace";
      pen.fillStyle = plain ? (name ? colours.soft : colours.ink) : colours["box-ink"];
      const y = box.y + 18 + LINE * row;
      pen.fillText(line, box.x + width / 2, y);
      if (gone && row === 0) pen.fillRect(box.x + MARGIN, y - 4, width - 2 * MARGIN, 1.2);
    });
    pen.textAlign = "start";
  }

  /** A closed group: its title, how many nodes it holds, and their colours as a strip. */
  paintGroup(pen, box) {
    const [width, height] = box.size;
    pen.fillStyle = colours.frame;
    pen.fill();
    pen.stroke();
    const counts = new Map();
    for (const node of box.members ?? []) {
      const colour = colourings[state.colouring](this.graph, node);
      counts.set(colour, (counts.get(colour) ?? 0) + 1);
    }
    let x = box.x + 3;
    for (const [colour, count] of [...counts].sort((a, b) => (a[0] < b[0] ? -1 : 1))) {
      const share = (width - 6) * count / box.members.length;
      pen.fillStyle = colour;
      pen.fillRect(x, box.y + height - 10, share, 7);
      x += share;
    }
    if (this.scale < 0.25) return;
    pen.fillStyle = colours.ink;
    pen.font = "600 12px system-ui, sans-serif";
    const gone = (box.members ?? []).filter(node => this.isGone(node)).length;
    pen.fillText(`▸ ${box.title}`, box.x + 10, box.y + 15);
    pen.fillStyle = colours.soft;
    pen.font = "11px system-ui, sans-serif";
    pen.fillText(`${box.members?.length ?? 0} nodes${gone ? `, ${gone} removed` : ""}`, box.x + 22, box.y + 29);
  }
}
