"use strict";
/* Reads the packed trees (packed_trees.py) and answers questions about them; draws nothing. */

const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };
const UNITS = 65535;

async function inflated(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

class Forest {
  static async read(head, text) {
    const bytes = await inflated(text);
    const arrays = {};
    let at = 0;
    for (const [name, type, size] of head.arrays) {
      const Kind = TYPES[type];
      const end = at + size * Kind.BYTES_PER_ELEMENT;
      arrays[name] = new Kind(bytes.slice(at, end)); // a copy is aligned
      at = end;
    }
    return new Forest(head, arrays);
  }

  constructor(head, arrays) {
    Object.assign(this, arrays);
    this.head = head;
    this.columns = head.columns;
    this.nTrees = head.n_trees;
    this.leafMark = head.columns.length >= 255 ? 65535 : 255;
    this.start = new Uint32Array(head.n_nodes.length + 1);
    head.n_nodes.forEach((n, i) => (this.start[i + 1] = this.start[i] + n));
    const n = this.start[this.nTrees];
    this.left = new Uint32Array(n); // 0 for a leaf
    this.rank = new Uint32Array(n); // the node's number among splits, or among leaves
    let splits = 0;
    for (let tree = 0; tree < this.nTrees; tree++) {
      let inTree = 0;
      for (let node = this.start[tree]; node < this.start[tree + 1]; node++) {
        if (this.feature[node] === this.leafMark) {
          this.rank[node] = node - splits;
        } else {
          this.left[node] = this.start[tree] + 2 * inTree + 1;
          this.rank[node] = splits;
          splits += 1;
          inTree += 1;
        }
      }
    }
    this.nLeaves = n - splits;
    this.base = head.base ?? 0; // boosted trees are added to it, others averaged
    this.divisor = head.base === null ? this.nTrees : 1;
    this.nOutputs = head.classes ? head.classes.length : 1;
    this.firstThreshold = [];
    this.firstSet = [];
    let thresholds = 0;
    let sets = 0;
    this.columns.forEach((column, i) => {
      this.firstThreshold.push(thresholds);
      this.firstSet.push(sets);
      if (column.bins.length) sets += this.n_cuts[i];
      else thresholds += this.n_cuts[i];
    });
    this.summaries = new Map();
  }

  isLeaf(node) {
    return this.left[node] === 0;
  }

  leafValue(node, output) {
    const at = this.rank[node];
    if (!this.head.classes) return this.value[at];
    if (output > 0) return this.value[at + (output - 1) * this.nLeaves] / UNITS;
    let others = 0;
    for (let o = 1; o < this.nOutputs; o++) others += this.value[at + (o - 1) * this.nLeaves];
    return Math.max(0, 1 - others / UNITS);
  }

  /* Rows and mean prediction of every node of a tree, from its leaves up. */
  summary(tree) {
    if (this.summaries.has(tree)) return this.summaries.get(tree);
    const begin = this.start[tree];
    const n = this.start[tree + 1] - begin;
    const k = this.nOutputs;
    const cover = new Float64Array(n);
    const value = new Float64Array(n * k);
    for (let i = n - 1; i >= 0; i--) {
      const node = begin + i;
      if (this.isLeaf(node)) {
        cover[i] = Math.max(this.cover[this.rank[node]], 1e-3); // noise may leave no rows
        for (let o = 0; o < k; o++) value[i * k + o] = this.leafValue(node, o);
      } else {
        const a = this.left[node] - begin;
        cover[i] = cover[a] + cover[a + 1];
        for (let o = 0; o < k; o++) {
          value[i * k + o] =
            (cover[a] * value[a * k + o] + cover[a + 1] * value[(a + 1) * k + o]) / cover[i];
        }
      }
    }
    const found = { begin, cover, value };
    this.summaries.set(tree, found);
    return found;
  }

  cutAt(node) {
    if (this.head.is_direct) return this.threshold[this.rank[node]];
    const column = this.feature[node];
    return this.threshold[this.firstThreshold[column] + this.cut[this.rank[node]]];
  }

  inSet(column, cut, bin) {
    const at = (this.firstSet[column] + cut) * 32 + (bin >> 3);
    return (this.set[at] >> (bin & 7)) & 1;
  }

  missingLeft(node) {
    return this.missing_left[this.rank[node]] === 1;
  }

  /* Whether a value goes left; null is missing, a category is its number. */
  goesLeft(node, value) {
    if (value === null) return this.missingLeft(node);
    const column = this.feature[node];
    const cut = this.cut[this.rank[node]];
    const bins = this.columns[column].bins;
    if (bins.length) return this.inSet(column, cut, bins[value]) === 1;
    return Math.fround(value) <= this.cutAt(node);
  }

  question(node) {
    return this.questionParts(node).join(" ");
  }

  /* The column and the condition, apart: a drawing may have to shorten only one of them. */
  questionParts(node) {
    const column = this.columns[this.feature[node]];
    if (column.bins.length) {
      const cut = this.cut[this.rank[node]];
      const left = column.categories.filter(
        (_, i) => this.inSet(this.feature[node], cut, column.bins[i]) === 1,
      );
      return [column.name, `is ${left.length ? left.join(" or ") : "missing"}`];
    }
    if (this.cutAt(node) === Infinity) return [column.name, "is known"];
    if (column.kind === "boolean") return [column.name, "is no"];
    const cut = this.cutAt(node);
    return [column.name, `≤ ${column.is_date ? dateOf(cut) : shortNumber(cut)}`];
  }

  path(tree, row) {
    let node = this.start[tree];
    const nodes = [node];
    while (!this.isLeaf(node)) {
      node = this.left[node] + (this.goesLeft(node, row[this.feature[node]]) ? 0 : 1);
      nodes.push(node);
    }
    return nodes;
  }

  predicted(row) {
    const sums = new Array(this.nOutputs).fill(0);
    for (let tree = 0; tree < this.nTrees; tree++) {
      const leaf = this.path(tree, row).pop();
      for (let o = 0; o < this.nOutputs; o++) sums[o] += this.leafValue(leaf, o);
    }
    return sums.map((sum) => this.base + sum / this.divisor);
  }

  /* How many splits of the whole forest use each column. */
  uses() {
    const found = new Array(this.columns.length).fill(0);
    for (const column of this.feature) if (column !== this.leafMark) found[column] += 1;
    return found;
  }
}

const DAY = 86400000; // milliseconds

/* The date that so many days after 1970-01-01 is. */
function dateOf(days) {
  const found = new Date(Math.floor(days) * DAY);
  return Number.isNaN(found.valueOf()) ? shortNumber(days) : found.toISOString().slice(0, 10);
}

function shortNumber(x) {
  return String(Number(x.toPrecision(5)));
}

function outcomeOf(forest, values) {
  const classes = forest.head.classes;
  if (!classes) {
    const number = shortNumber(values[0]);
    if (forest.head.base === null) return `${forest.head.label} ${number}`;
    return `${values[0] < 0 ? "" : "+"}${number} ${forest.head.label}`; // a boosted tree adds it
  }
  const best = values.indexOf(Math.max(...values));
  return `${classes[best]} ${(100 * values[best]).toFixed(1)} %`;
}

/* Path-dependent TreeSHAP (Lundberg et al. 2020, algorithm 2) of one output, over all trees. */
function contributions(forest, row, output) {
  const phi = new Float64Array(forest.columns.length);
  let base = 0;
  for (let tree = 0; tree < forest.nTrees; tree++) {
    const known = forest.summary(tree);
    base += known.value[output];
    walk(forest, known, row, output, phi, forest.start[tree], [], 1, 1, -1);
  }
  return { base: forest.base + base / forest.divisor, phi: phi.map((x) => x / forest.divisor) };
}

function walk(forest, known, row, output, phi, node, before, zero, one, column) {
  const path = extended(before, zero, one, column);
  if (forest.isLeaf(node)) {
    const value = known.value[(node - known.begin) * forest.nOutputs + output];
    for (let i = 1; i < path.length; i++) {
      const step = path[i];
      phi[step.column] += unwoundSum(path, i) * (step.one - step.zero) * value;
    }
    return;
  }
  const asked = forest.feature[node];
  const left = forest.left[node];
  const hot = left + (forest.goesLeft(node, row[asked]) ? 0 : 1);
  const cold = hot === left ? left + 1 : left;
  let rest = path;
  let [z, o] = [1, 1];
  const again = path.findIndex((step, i) => i > 0 && step.column === asked);
  if (again > 0) {
    [z, o] = [path[again].zero, path[again].one];
    rest = unwound(path, again);
  }
  const share = (child) => known.cover[child - known.begin] / known.cover[node - known.begin];
  walk(forest, known, row, output, phi, hot, rest, z * share(hot), o, asked);
  walk(forest, known, row, output, phi, cold, rest, z * share(cold), 0, asked);
}

function extended(before, zero, one, column) {
  const path = before.map((step) => ({ ...step }));
  const l = path.length;
  path.push({ column, zero, one, weight: l === 0 ? 1 : 0 });
  for (let i = l - 1; i >= 0; i--) {
    path[i + 1].weight += (one * path[i].weight * (i + 1)) / (l + 1);
    path[i].weight = (zero * path[i].weight * (l - i)) / (l + 1);
  }
  return path;
}

function unwound(path, index) {
  const found = path.map((step) => ({ ...step }));
  const l = found.length - 1;
  const { zero, one } = found[index];
  let next = found[l].weight;
  for (let j = l - 1; j >= 0; j--) {
    if (one !== 0) {
      const kept = found[j].weight;
      found[j].weight = (next * (l + 1)) / ((j + 1) * one);
      next = kept - (found[j].weight * zero * (l - j)) / (l + 1);
    } else {
      found[j].weight = (found[j].weight * (l + 1)) / (zero * (l - j));
    }
  }
  for (let j = index; j < l; j++) {
    Object.assign(found[j], { column: found[j + 1].column, zero: found[j + 1].zero, one: found[j + 1].one });
  }
  found.pop();
  return found;
}

function unwoundSum(path, index) {
  const l = path.length - 1;
  const { zero, one } = path[index];
  let next = path[l].weight;
  let total = 0;
  for (let j = l - 1; j >= 0; j--) {
    if (one !== 0) {
      const here = (next * (l + 1)) / ((j + 1) * one);
      total += here;
      next = path[j].weight - (here * zero * (l - j)) / (l + 1);
    } else {
      total += (path[j].weight * (l + 1)) / (zero * (l - j));
    }
  }
  return total;
}
