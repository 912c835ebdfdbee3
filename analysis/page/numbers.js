// Formats numbers, and chooses the ticks of logarithmic axes.

function digits(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size >= 1e4 && size < 1e9) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(4)));
}

function withUnit(value, units) {
  const [name, factor] = units.find(([, least]) => value >= least * 0.9999) ?? units.at(-1);
  return `${digits(value / factor)} ${name}`;
}

const bytes = (value) =>
  withUnit(value, [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]]);
const seconds = (value) =>
  withUnit(value, [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]]);
const FORMATS = { "": digits, bytes, seconds };

// Multiples of powers of the base, few steps where these suffice: 1, 10, 100 or 1, 2, 5, 10.
function logTicks(low, high, base) {
  const choices = base === 2 ? [[1]] : [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7]];
  let ticks = [];
  for (const multiples of choices) {
    ticks = [];
    const first = Math.floor(Math.log(low) / Math.log(base));
    for (let power = first; base ** power <= high; power += 1)
      ticks.push(...multiples.map((multiple) => multiple * base ** power));
    ticks = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    if (ticks.length >= 4) break;
  }
  if (ticks.length < 3) return evenTicks(low, high);
  const every = Math.ceil(ticks.length / 8);
  return ticks.filter((_, index) => index % every === 0);
}

function evenTicks(low, high) {
  const rough = (high - low) / 5 || low / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step / 1e6; tick += step)
    ticks.push(Number(tick.toPrecision(12)));
  return ticks.length ? ticks : [low];
}

// Few measured values are the ticks themselves.
function ticksOf(values, axis) {
  const known = [...new Set(values.filter((value) => value !== null))].sort((a, b) => a - b);
  if (!known.length) return [];
  if (axis.own && known.length <= 8) return known;
  if (!axis.log) return evenTicks(Math.min(0, known[0]), known.at(-1));
  return logTicks(known[0], known.at(-1), axis.unit === "bytes" ? 2 : 10);
}
