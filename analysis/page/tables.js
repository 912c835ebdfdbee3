// Sorts and filters tables.

function sortBy(button) {
  const head = button.closest("th");
  const table = head.closest("table");
  const place = [...head.parentElement.children].indexOf(head);
  const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  for (const other of table.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const isNumber = head.classList.contains("number");
  const keyed = [...table.tBodies[0].rows].map((row) => {
    const cell = row.cells[place];
    const text = cell.textContent.trim();
    return { row, value: isNumber && text ? Number(cell.dataset.value) : text };
  });
  keyed.sort((a, b) => {
    if (a.value === "" || b.value === "") return (a.value === "") - (b.value === "");
    return sign * (isNumber ? a.value - b.value : a.value.localeCompare(b.value, "en", { numeric: true }));
  });
  table.tBodies[0].append(...keyed.map(({ row }) => row));
}

// The ids of the rows that pass the filters of a section; null where no filter is set.
function visibleRows(section, rows) {
  const chosen = [...section.querySelectorAll("select[data-column]")]
    .filter((select) => select.value)
    .map((select) => [select.dataset.column, select.value]);
  if (!chosen.length) return null;
  const ids = [...section.querySelectorAll("tbody tr[id]")].map((row) => row.id);
  return new Set(ids.filter((id) => chosen.every(([name, value]) => rows[id].chosen[name] === value)));
}

function filterTable(section, visible) {
  const rows = [...section.querySelectorAll("table.sortable tbody tr")];
  for (const row of rows) row.hidden = Boolean(visible) && !visible.has(row.id);
  const count = rows.filter((row) => !row.hidden).length;
  const output = section.querySelector("output.count");
  if (output) output.textContent = `${count} of ${rows.length} rows`;
}
