// The script of the page: it draws the figures anew for the axes and the stretch that a reader
// chooses, and shows the values under the pointer. It gets its numbers from the page (chart_data.h)
// and asks for nothing else. A page whose reader has switched scripts off shows the drawings of
// chart.h. What is chosen stands after the '#' of the address, so that a view can be passed on.
#pragma once

#include <string_view>

namespace fourfold::report {

/// The hash of its bytes, so that the page runs this script and no other. A test computes it anew.
inline constexpr std::string_view page_script_hash =
    "sha256-WAVyDmqqhecgO+IHC8iy8fNA41wcErtxUyK8uehp9uI=";

inline constexpr std::string_view page_script = R"JS(
const left = 46, right = 18, top_ = 10, bottom = 34;
const charts = document.querySelector('.charts'), runs = JSON.parse(charts.dataset.runs),
  unit = charts.dataset.unit;
const figures = [...charts.querySelectorAll('figure')].map(element => ({
  curves: JSON.parse(element.dataset.curves), axis: element.dataset.axis,
  isLoss: 'loss' in element.dataset, drawings: [...element.querySelectorAll('svg')],
  values: element.querySelector('.values') }));
const clean = { x: 'steps', loss: 'linear', from: null, to: null };
let view = { ...clean };

const escaped = text => text.replace(/[&<>"]/g, c => '&#' + c.charCodeAt(0) + ';');
const short = (value, digits) => Number(value.toPrecision(digits)).toString();
function label(value) {
  const size = Math.abs(value);
  for (const [unit, suffix] of [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']])
    if (size >= unit) return short(value / (unit === 1e4 ? 1e3 : unit), 4) + suffix;
  return short(value, 4);
}

// Steps to what was read until then, straight between the known points.
function place(run, step) {
  const known = runs[run].items;
  if (view.x === 'steps') return step;
  let i = 1;
  while (i < known.length - 1 && known[i][0] < step) ++i;
  const [a, b] = [known[i - 1], known[i]];
  return a[1] + (step - a[0]) * (b[1] - a[1]) / (b[0] - a[0]);
}

function marksBetween(least, most, isLog) {
  const marks = [];
  if (isLog && most / least >= 4) {
    const factors = most / least > 1e4 ? [1] : [1, 2, 5];
    for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most); ++power)
      for (const factor of factors) marks.push(factor * 10 ** power);
  } else {
    const rough = (most - least) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find(factor => factor * power >= rough * 0.999);
    for (let i = Math.ceil(least / step - 1e-6); i <= most / step + 1e-6; ++i) marks.push(i * step);
  }
  return marks.filter(mark => mark >= least - 1e-9 * Math.abs(least)
                           && mark <= most + 1e-9 * Math.abs(most));
}

// The points of a curve that are seen, and one on each side; those of one column are joined.
function columnsOf(curve, from, to, count) {
  const all = curve.x.map((step, i) => ({ x: place(curve.run, step), y: curve.y[i],
    least: (curve.least ?? curve.y)[i], most: (curve.most ?? curve.y)[i], n: 1 }));
  let first = all.findIndex(p => p.x >= from), last = all.findLastIndex(p => p.x <= to);
  if (first < 0 || last < 0) return [];
  const seen = all.slice(Math.max(first - 1, 0), last + 2);
  if (seen.length <= count) return seen;
  const columns = new Map();
  for (const p of seen) {
    const key = Math.floor((p.x - from) / (to - from) * count), c = columns.get(key);
    if (!c) { columns.set(key, { ...p }); continue; }
    c.x += p.x; c.y += p.y; ++c.n;
    c.least = Math.min(c.least, p.least); c.most = Math.max(c.most, p.most);
  }
  return [...columns.values()].map(c => ({ ...c, x: c.x / c.n, y: c.y / c.n }));
}

// What a figure shows: its ends, its curves as columns, and how values become places.
function fieldOf(figure, width, height) {
  const ends = figure.curves.filter(c => c.x.length).flatMap(
    c => [place(c.run, c.x[0]), place(c.run, c.x[c.x.length - 1])]);
  let from = view.from ?? Math.min(...ends), to = view.to ?? Math.max(...ends);
  if (!(to > from)) { from -= 0.5; to += 0.5; }
  const curves = figure.curves.map(
    c => ({ ...c, columns: columnsOf(c, from, to, width - left - right) }));
  const values = curves.flatMap(c => c.columns.flatMap(p => [p.least, p.most]));
  let least = Math.min(...values), most = Math.max(...values);
  const clip = Number(figure.axis);
  const isClipped = clip < most && clip > least;
  const highest = most;
  if (isClipped) most = clip;
  const isLog = least > 0 && (figure.axis === 'log' || (figure.isLoss && view.loss === 'log'));
  if (!(most > least)) { const margin = Math.abs(least) / 10 || 1; least -= margin; most += margin; }
  const scale = isLog && least > 0 ? Math.log : y => y, room = (scale(most) - scale(least)) / 25;
  return { curves, from, to, least, most, isLog, highest: isClipped ? highest : null, width, height,
    across: x => left + (x - from) / (to - from) * (width - left - right),
    back: px => from + (px - left) / (width - left - right) * (to - from),
    down: y => top_ + (1 - Math.min(Math.max((scale(y) - scale(least) + room)
      / (scale(most) - scale(least) + 2 * room), 0), 1)) * (height - top_ - bottom) };
}

function axes(f) {
  const line = (x1, y1, x2, y2) =>
    `<line class="grid" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`;
  const text = (x, y, anchor, words) => `<text x="${x}" y="${y}" text-anchor="${anchor}">${words}</text>`;
  let svg = '';
  for (const mark of marksBetween(f.least, f.most, f.isLog)) {
    const y = f.down(mark).toFixed(1);
    svg += line(left, y, f.width - right, y) + text(left - 6, Number(y) + 4, 'end', label(mark));
  }
  const floor = f.height - bottom;
  for (const mark of marksBetween(f.from, f.to, false)) {
    const x = f.across(mark).toFixed(1);
    svg += line(x, floor, x, floor + 4) + text(x, floor + 16, 'middle', label(mark));
  }
  if (f.highest !== null) svg += text(f.width - right, top_ + 8, 'end', 'up to ' + short(f.highest, 4));
  return svg + text(f.width - right, f.height - 4, 'end', view.x === 'steps' ? 'step' : unit);
}

function drawn(f, curve) {
  const at = (x, y) => f.across(x).toFixed(1) + ',' + f.down(y).toFixed(1);
  const c = curve.columns, kind = name => `class="${name} c${curve.color}"`;
  if (!c.length) return '';
  let svg = `<polyline ${kind('line')} points="${c.map(p => at(p.x, p.y)).join(' ')}"/>`;
  if (c.some(p => p.most > p.least))
    svg = `<polygon ${kind('band')} points="${[...c.map(p => at(p.x, p.most)),
      ...c.map(p => at(p.x, p.least)).reverse()].join(' ')}"/>` + svg;
  if (c.length === 1 || (curve.dots && c.length <= 60))
    for (const p of c) {
      const [x, y] = at(p.x, p.y).split(',');
      svg += `<circle ${kind('dot')} cx="${x}" cy="${y}" r="2.5"/>`;
    }
  return `<g>${svg}</g>`;
}

function draw() {
  for (const figure of figures)
    for (const svg of figure.drawings) {
      const { width, height } = svg.viewBox.baseVal, f = fieldOf(figure, width, height);
      const marks = runs.flatMap((run, i) => run.marks.map(([step, words, color]) =>
        ({ x: place(i, step), words, color }))).filter(mark => mark.x >= f.from && mark.x <= f.to);
      const box = [left, 0, width - left - right, height];
      svg.innerHTML = axes(f) + `<svg x="${box[0]}" y="0" width="${box[2]}" height="${height}"
        viewBox="${box.join(' ')}">` + f.curves.map(c => drawn(f, c)).join('') + '</svg>'
        + marks.map(mark => `<line class="mark c${mark.color}" x1="${f.across(mark.x)}" y1="${top_}"
          x2="${f.across(mark.x)}" y2="${height - bottom}"><title>${escaped(mark.words)}</title></line>`)
          .join('') + '<rect class="chosen"/><line class="pointer"/>';
      svg.field = f;
    }
  for (const button of document.querySelectorAll('.switches button[name]'))
    button.setAttribute('aria-pressed', view[button.name] === button.value);
  document.querySelector('.switches .whole').hidden = view.from === null;
}

// The values of all curves nearest to a place.
function words(f, px) {
  const x = f.back(px), lines = [];
  let best = null;
  const nearest = f.curves.map(c => c.columns.reduce(
    (a, b) => a && Math.abs(a.x - x) <= Math.abs(b.x - x) ? a : b, null));
  for (const p of nearest)
    if (p && (!best || Math.abs(p.x - x) < Math.abs(best.x - x))) best = p;
  if (!best) return null;
  f.curves.forEach((c, i) => {
    const p = nearest[i];
    if (!p || Math.abs(f.across(p.x) - f.across(best.x)) > 4) return;
    const range = p.most > p.least ? ` (${short(p.least, 5)} to ${short(p.most, 5)})` : '';
    lines.push(`<div class="c${c.color}"><i></i>${escaped(c.name)} <strong>${short(p.y, 5)}</strong>${range}</div>`);
  });
  const where = view.x === 'steps' ? 'step ' + short(best.x, 9) : label(best.x) + ' ' + unit;
  return { x: best.x, html: `<div>${where}</div>` + lines.join('') };
}

function attend(svg, values) {
  let begin = null;
  const inside = event => {
    const box = svg.getBoundingClientRect(), px = (event.clientX - box.left) * svg.viewBox.baseVal.width
      / box.width;
    return Math.min(Math.max(px, left), svg.viewBox.baseVal.width - right);
  };
  const span = (element, x, width) => {
    element.setAttribute('x', x); element.setAttribute('width', width);
    element.setAttribute('y', top_); element.setAttribute('height', svg.field.height - top_ - bottom);
  };
  svg.addEventListener('pointermove', event => {
    const px = inside(event), f = svg.field, found = words(f, px);
    if (begin !== null) span(svg.querySelector('.chosen'), Math.min(px, begin), Math.abs(px - begin));
    if (!found) return;
    const line = svg.querySelector('.pointer'), x = f.across(found.x);
    for (const [name, value] of [['x1', x], ['x2', x], ['y1', top_], ['y2', f.height - bottom]])
      line.setAttribute(name, value);
    values.innerHTML = found.html;
    values.hidden = false;
    values.classList.toggle('at-left', px > f.width / 2);
  });
  svg.addEventListener('pointerleave', () => {
    values.hidden = true;
    svg.querySelector('.pointer').removeAttribute('y2');
  });
  svg.addEventListener('pointerdown', event => {
    if (event.button === 0) { begin = inside(event); svg.setPointerCapture(event.pointerId); }
  });
  svg.addEventListener('pointerup', event => {
    if (begin === null) return;
    const [a, b] = [begin, inside(event)].sort((x, y) => x - y);
    begin = null;
    span(svg.querySelector('.chosen'), 0, 0);
    if (b - a >= 5) choose({ from: svg.field.back(a), to: svg.field.back(b) });
  });
  svg.addEventListener('pointercancel', () => { begin = null; span(svg.querySelector('.chosen'), 0, 0); });
  svg.addEventListener('dblclick', () => choose({ from: null, to: null }));
}

function choose(change) {
  if (change.x && change.x !== view.x) change = { ...change, from: null, to: null };
  const wanted = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...view, ...change }))
    if (value !== clean[key]) wanted.set(key, typeof value === 'number' ? short(value, 8) : value);
  history.replaceState(null, '', '#' + wanted);
  read();
}

function read() {
  const wanted = new URLSearchParams(location.hash.slice(1)), number = key =>
    wanted.has(key) && Number.isFinite(Number(wanted.get(key))) ? Number(wanted.get(key)) : null;
  const hasItems = runs.every(run => run.items.length > 1);
  view = { x: wanted.get('x') === 'items' && hasItems ? 'items' : 'steps',
    loss: wanted.get('loss') === 'log' ? 'log' : 'linear', from: number('from'), to: number('to') };
  if (view.from === null || !(view.to > view.from)) view.from = view.to = null;
  for (const button of document.querySelectorAll('.switches button[name=x]')) button.disabled = !hasItems;
  draw();
}

for (const button of document.querySelectorAll('.switches button'))
  button.addEventListener('click', () => choose(
    button.name ? { [button.name]: button.value } : { from: null, to: null }));
for (const figure of figures) for (const svg of figure.drawings) attend(svg, figure.values);
addEventListener('hashchange', read);
document.querySelector('.switches').hidden = false;
read();
)JS";

}  // namespace fourfold::report
