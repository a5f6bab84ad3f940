// Sorting, filtering, opening a cell. Without this file everything is still there to read.
"use strict";
document.documentElement.classList.add("js");

const key = (row, column) => {
  const cell = row.cells[column];
  const text = cell.dataset.sort ?? cell.textContent.trim();
  const number = Number.parseFloat(text.replace(/,/g, ""));
  return Number.isNaN(number) ? text.toLowerCase() : number;
};
const order = (a, b) =>
  typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;

for (const table of document.querySelectorAll("table.sortable")) {
  const lead = Number(table.dataset.heads ?? 0);
  const heads = [...table.tHead.rows].at(-1).cells;
  const offset = table.tHead.rows.length > 1 ? lead : 0;
  for (const head of heads) {
    head.querySelector("button")?.addEventListener("click", () => {
      const column = head.cellIndex + offset;
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      const full = (row) => row.cells[column] && !row.cells[column].classList.contains("void");
      const rows = [...body.rows];
      const sorted = rows.filter(full).sort((a, b) => (down ? -1 : 1) * order(key(a, column), key(b, column)));
      body.append(...sorted, ...rows.filter((row) => !full(row)));
    });
  }
}

const form = document.querySelector("form.filter");
if (form) {
  const rows = [...document.querySelectorAll("table.paper tbody tr, table.list tbody tr")];
  const words = new Map(rows.map((row) => {
    const table = row.closest("section")?.querySelector("h2")?.textContent ?? "";
    return [row, `${table} ${row.textContent}`.toLowerCase()];
  }));
  const apply = () => {
    const asked = form.elements.find.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const kept = new Set([...form.querySelectorAll("[name=verdict]:checked")].map((box) => box.value));
    let shown = 0;
    for (const row of rows) {
      const cells = [...row.querySelectorAll("[data-verdict]")];
      for (const cell of cells) cell.classList.toggle("off", !kept.has(cell.dataset.verdict));
      const some = row.dataset.verdict ? kept.has(row.dataset.verdict) : cells.some((c) => kept.has(c.dataset.verdict));
      row.hidden = !(some && asked.every((word) => words.get(row).includes(word)));
      shown += row.hidden ? 0 : 1;
    }
    form.querySelector("output").textContent = `${shown} of ${rows.length} rows`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
}

const dialog = document.querySelector("dialog");
const open = (id) => {
  const claim = document.getElementById(id);
  if (!claim?.classList.contains("claim")) return false;
  const copy = claim.cloneNode(true);
  copy.removeAttribute("id");
  dialog.querySelector(".body").replaceChildren(copy);
  dialog.showModal();
  dialog.scrollTop = 0;
  return true;
};
document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[href^='#c-']");
  if (link && open(decodeURIComponent(link.hash.slice(1)))) {
    event.preventDefault();
    history.replaceState(null, "", link.hash);
  }
  if (event.target === dialog || event.target.closest(".close")) dialog.close();
  const copy = event.target.closest(".copy");
  if (copy) {
    const code = copy.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      copy.textContent = "Selected";
    }
  }
  const line = event.target.closest(".legend button");
  if (line) {
    const off = line.getAttribute("aria-pressed") === "true";
    line.setAttribute("aria-pressed", String(!off));
    for (const mark of line.closest(".board").querySelectorAll(`g[data-series="${line.dataset.series}"]`))
      mark.toggleAttribute("hidden", off);
  }
});
dialog?.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));
if (location.hash.startsWith("#c-")) open(decodeURIComponent(location.hash.slice(1)));
