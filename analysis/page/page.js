// Starts the page: draws all figures, and connects filters, sorting and samples.

const data = parsed("data");
const sections = [...document.querySelectorAll("section.suite")];
const turns = new Map();
const openRow = (id) => openSamples(data.rows[id]);

// Draws the figures of a section one by one; a later call for the same section takes over.
async function drawSection(section) {
  const turn = (turns.get(section) ?? 0) + 1;
  turns.set(section, turn);
  const visible = visibleRows(section, data.rows);
  filterTable(section, visible);
  for (const place of section.querySelectorAll(".drawing[id]")) {
    if (turns.get(section) !== turn) return;
    const figure = data.figures[place.id];
    try {
      await drawFigure(place, figure, visible, openRow);
      fillNumbers(place.closest("figure").querySelector("details.numbers"), figure);
    } catch (error) {
      place.textContent = `This figure cannot be drawn: ${error.message}`;
      console.error(place.id, error);
    }
  }
}

// The points of a figure as a table, once it is asked for.
function fillNumbers(details, figure) {
  const fill = () => {
    if (!details.open) return;
    const heads = ["panel", "series"].filter((name) => figure.shown.some((row) => row[name]));
    const table = document.createElement("table");
    table.createCaption().textContent = figure.title;
    table.caption.className = "hidden";
    const head = table.createTHead().insertRow();
    for (const name of [...heads, figure.x.label, figure.y.label]) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = name;
      head.append(cell);
    }
    const body = table.createTBody();
    for (const row of figure.shown) {
      const line = body.insertRow();
      for (const name of [...heads, "x_text", "value_text"]) line.insertCell().textContent = row[name];
    }
    details.querySelector("div").replaceChildren(table);
  };
  details.ontoggle = fill;
  fill();
}

for (const button of document.querySelectorAll("button.spark"))
  button.ariaLabel = `Samples of ${data.rows[button.closest("tr").id].name}`;
for (const section of sections) {
  for (const figure of section.querySelectorAll("figure")) {
    const place = figure.querySelector(".drawing");
    if (place) drawLegend(figure.querySelector(".legend"), data.figures[place.id]);
  }
  const form = section.querySelector("form.filters");
  form?.addEventListener("change", () => drawSection(section));
  form?.addEventListener("reset", () => setTimeout(() => drawSection(section)));
  section.addEventListener("click", (event) => {
    const button = event.target.closest("th button");
    if (button?.classList.contains("spark")) openRow(button.closest("tr").id);
    else if (button) sortBy(button);
  });
}

async function drawAll() {
  for (const section of sections) await drawSection(section);
}

let width = window.innerWidth;
let timer = null;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return; // A telephone hides its bars while it scrolls.
  width = window.innerWidth;
  clearTimeout(timer);
  timer = setTimeout(drawAll, 200);
});

for (const log of document.querySelectorAll("pre")) log.scrollTop = log.scrollHeight;
await drawAll();
document.documentElement.dataset.ready = "true";
