(() => {
  "use strict";
  document.documentElement.classList.add("js");
  const table = document.getElementById("quantities");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const search = document.getElementById("search");
  const verdict = document.getElementById("verdict");
  const functional = document.getElementById("functional");
  const shown = document.getElementById("shown");
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  const filter = () => {
    const words = search.value.toLowerCase();
    let count = 0;
    for (const row of rows) {
      const keep = row.cells[0].textContent.toLowerCase().includes(words) &&
        (!verdict.value || row.dataset.verdict === verdict.value) &&
        (!functional.value || row.cells[1].textContent === functional.value);
      row.hidden = !keep;
      count += keep;
    }
    shown.textContent = `${count} of ${rows.length} shown`;
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "descending" ||
        (!head.hasAttribute("aria-sort") && head.classList.contains("word"));
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "ascending" : "descending");
      const sign = down ? 1 : -1;
      rows.sort((a, b) => {
        const x = value(a, column), y = value(b, column);
        return sign * (typeof x === "number" ? x - y || 0 : x.localeCompare(y, undefined, { numeric: true }));
      });
      body.append(...rows);
    });
  });
  for (const control of [search, verdict, functional]) control.addEventListener("input", filter);
  filter();
})();
