// Rows and times of tables.

function cell(text) {
  const td = document.createElement('td');
  td.textContent = text;
  return td;
}

function row(...texts) {
  const tr = document.createElement('tr');
  tr.append(...texts.map(cell));
  return tr;
}

function time(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  return seconds < 0.9995 ? `${+(seconds * 1000).toPrecision(3)} ms` : `${+seconds.toPrecision(3)} s`;
}

export {row, time};
