"use strict";
// Links to the parts of the page, and tables that are sorted by a column.

document.body.classList.toggle("framed", self !== top);

for (const section of document.querySelectorAll("main > section")) {
  const link = Object.assign(document.createElement("a"), { href: `#${section.id}`, textContent: section.querySelector("h2").textContent });
  document.querySelector("nav").append(link, " ");
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
