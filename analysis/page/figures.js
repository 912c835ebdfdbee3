// Draws figures with Vega-Lite. Colours are custom properties of page.css, so that figures follow
// a change from light to dark, and paper, without being drawn again.

const CONFIG = {
  aria: false, // The place of a figure says what it shows.
  background: null,
  font: "system-ui, sans-serif",
  view: { stroke: null },
  axis: {
    labelColor: "var(--ink-soft)", titleColor: "var(--ink-soft)", gridColor: "var(--line)",
    domainColor: "var(--line-strong)", tickColor: "var(--line-strong)", labelFontSize: 12,
    titleFontSize: 12, titleFontWeight: "normal", titlePadding: 8, labelPadding: 5,
  },
  header: { labelColor: "var(--ink)", labelFontSize: 13, labelFontWeight: 600, labelPadding: 8 },
  text: { fontSize: 12 },
};
const OPTIONS = {
  actions: false, renderer: "svg", ast: true, defaultStyle: false, config: CONFIG,
  tooltip: { disableDefaultStyle: true }, expressionFunctions: { digits, bytes, seconds },
};
const PANEL_WIDTH = 250;

// Turns columns into rows, with the texts of their tooltips.
function rowsOf(figure) {
  const names = Object.keys(figure.rows);
  const x = FORMATS[figure.x.unit];
  const y = FORMATS[figure.y.unit];
  return figure.rows.value.map((_, index) => {
    const row = Object.fromEntries(names.map((name) => [name, figure.rows[name][index]]));
    row.series ??= "";
    row.panel ??= "";
    row.order = figure.series.findIndex((series) => series.name === row.series);
    row.x_text = figure.x.names ? row.x : x(row.x);
    row.value_text = y(row.value);
    if (has(row.low)) row.value_text += ` [${y(row.low)}, ${y(row.high)}]`;
    if (figure.y.log && !(row.low > 0)) row.low = row.high = null;
    return row;
  });
}

const has = (value) => value !== null && value !== undefined;

// The points that filters leave, the curves of their series, and the reference in their panels.
function chosenRows(figure, visible) {
  const isShown = (row) => !visible || visible.has(row.row);
  const isDrawable = (row) => !figure.y.log || row.value > 0;
  const points = figure.all.filter((row) => row.kind === "point" && isShown(row) && isDrawable(row));
  const panels = [...new Set(points.map((row) => row.panel))];
  const series = new Set(points.map((row) => row.series));
  const isSeries = (name) => figure.series.some((each) => each.name === name);
  const curves = figure.all.filter(
    (row) => row.kind === "curve" && panels.includes(row.panel)
      && (series.has(row.series) || !isSeries(row.series)),
  );
  const references = has(figure.reference)
    ? panels.map((panel) => ({ kind: "reference", panel, value: figure.reference }))
    : [];
  return { points, panels, rows: [...points, ...curves, ...references] };
}

// Returns a copy of the specification with the widths and heights that the place has room for.
function fitted(figure, place, points, panels) {
  const copy = structuredClone(figure.spec);
  const inner = copy.spec ?? copy;
  const room = place.clientWidth;
  const isOver = figure.layout === "over";
  const names = points.map((row) => (figure.layout === "map" ? row.series : row.x));
  const letters = isOver ? 0 : Math.max(...names.map((name) => name.length));
  const limit = Math.min(0.52 * room, 220, 7 * letters + 6);
  const left = isOver ? 66 : limit + 12;
  const columns = Math.max(1, Math.min(panels.length, 3, Math.floor((room - left) / PANEL_WIDTH)));
  if (!isOver) copy.config = { axisY: { labelLimit: limit } };
  if (copy.spec) copy.columns = columns;
  inner.width = Math.max(120, Math.floor((room - left - 12 - 24 * (columns - 1)) / columns));
  inner.height = 230;
  if (figure.layout === "beside")
    inner.height = { step: inner.layer[0].encoding.yOffset ? 12 : 20 };
  if (figure.layout === "map") {
    const lines = points.map((row) => row.text.split("\n"));
    const most = Math.max(...lines.map((each) => each.length));
    const widest = Math.max(...lines.flat().map((line) => line.length));
    const across = new Set(points.map((row) => row.x)).size;
    inner.height = { step: 15 * most + 18 };
    inner.layer[1].mark.dy = -7.5 * most + 1; // The words of all cells begin at the same height.
    inner.width = Math.max(Math.min(inner.width, 180 * across), (7 * widest + 8) * across);
  }
  return copy;
}

// Returns a new element in a place, whose description for readers then stays as it is.
function inside(place) {
  const element = document.createElement("div");
  place.replaceChildren(element);
  return element;
}

async function drawFigure(place, figure, visible, onPoint) {
  figure.all ??= rowsOf(figure);
  const { points, panels, rows } = chosenRows(figure, visible);
  figure.shown = points;
  place.classList.toggle("empty", !points.length);
  place.classList.toggle("map", figure.layout === "map");
  figure.view?.finalize();
  figure.view = null;
  if (!points.length) {
    place.textContent = "No points match the filters.";
    return;
  }
  const spec = fitted(figure, place, points, panels);
  const ends = rows.flatMap((row) => [row.value, row.low, row.high]).filter(has);
  const xs = points.map((row) => row.x);
  const ticks = {
    x_ticks: figure.x.names ? [] : ticksOf(xs, { ...figure.x, own: true }),
    y_ticks: ticksOf(ends, figure.y),
  };
  for (const param of spec.params) param.value = ticks[param.name];
  spec.datasets = { rows };
  place.style.minHeight = `${place.clientHeight}px`; // What follows does not jump meanwhile.
  const { view } = await vegaEmbed(inside(place), spec, OPTIONS);
  place.style.minHeight = "";
  figure.view = view;
  view.addEventListener("click", (_, item) => item?.datum?.row && onPoint(item.datum.row));
}

function drawLegend(list, figure) {
  const SVG = "http://www.w3.org/2000/svg";
  for (const { name, colour, shape } of figure.series) {
    const entry = document.createElement("li");
    const marker = document.createElementNS(SVG, "svg");
    marker.setAttribute("viewBox", "-1.2 -1.2 2.4 2.4");
    marker.setAttribute("aria-hidden", "true");
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", shape);
    path.setAttribute("fill", colour);
    marker.append(path);
    entry.append(marker, name);
    list.append(entry);
  }
}
