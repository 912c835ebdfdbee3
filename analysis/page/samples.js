// Shows the samples of a row in a dialog.

const dialog = document.getElementById("samples");
const QUANTILES = ["p0", "p5", "p25", "p50", "p75", "p95", "p100"];
let allSamples = null;
let sampleSpecs = null;

const parsed = (id) => JSON.parse(document.getElementById(id).textContent);

function floats(text) {
  const raw = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return [...new Float32Array(raw.buffer)];
}

// One row per iteration, or per several of them: the least, the median and the highest time.
function timeRows(sample) {
  const times = floats(sample.times);
  const count = sample.step > 1 ? times.length / 3 : times.length;
  return Array.from({ length: count }, (_, index) => {
    const x = index * sample.step;
    if (sample.step === 1) return { x, low: times[index], value: times[index], high: times[index] };
    const [low, value, high] = [0, 1, 2].map((part) => times[part * count + index]);
    return { x, low, value, high };
  });
}

function histogramRows(sample) {
  const ratio = (sample.high / sample.low) ** (1 / sample.counts.length);
  const edge = (index) => sample.low * ratio ** index;
  const isPoint = sample.high === sample.low;
  return sample.counts.map((count, index) => ({
    count, low: isPoint ? sample.low * 0.99 : edge(index), high: isPoint ? sample.high * 1.01 : edge(index + 1),
  }));
}

function rankRows(sample) {
  const values = floats(sample.quantiles);
  return sample.ranks.map((rank, index) => {
    const own = values.slice(index * QUANTILES.length, (index + 1) * QUANTILES.length);
    return { rank: String(rank), ...Object.fromEntries(QUANTILES.map((name, at) => [name, own[at]])) };
  });
}

async function drawSample(id, rows, height, values, words) {
  const place = document.getElementById(id);
  const spec = structuredClone(sampleSpecs[id.replace("sample-", "")]);
  spec.width = Math.max(150, place.clientWidth - 76);
  spec.height = height;
  const isTimes = id === "sample-times";
  const ticks = ticksOf(values, { log: true, unit: "" });
  for (const param of spec.params)
    param.value = param.name === (isTimes ? "y_ticks" : "x_ticks") ? ticks : [];
  spec.datasets = { rows };
  place.setAttribute("aria-label", words);
  await vegaEmbed(inside(place), spec, OPTIONS);
}

async function showSample(sample) {
  const median = sample.median;
  const with_ = (rows) => rows.map((row) => ({ ...row, median }));
  const range = [sample.low, sample.high];
  document.querySelector("#samples .facts").textContent =
    `${sample.n.toLocaleString("en")} samples from ${seconds(sample.low)} to ${seconds(sample.high)}, median ${seconds(median)}.`;
  document.getElementById("thinned").textContent = sample.step === 1
    ? "every sample; dashed: median"
    : `line and dots: median of ${sample.step} iterations in a row, band: their least to their highest; dashed: median of all`;
  document.getElementById("ranks-note").textContent =
    "median, 25 to 75 %, 5 to 95 % of all samples"
    + (sample.ranks.length < sample.num_ranks
      ? `; the ${sample.ranks.length} slowest of ${sample.num_ranks} ranks` : "");
  const ranks = rankRows(sample);
  await drawSample("sample-times", with_(timeRows(sample)), 200, range,
    `Time of ${sample.n} iterations, from ${seconds(sample.low)} to ${seconds(sample.high)}.`);
  await drawSample("sample-histogram", with_(histogramRows(sample)), 180, range,
    `Histogram of ${sample.n} samples; median ${seconds(median)}.`);
  await drawSample("sample-ranks", ranks, { step: 22 },
    ranks.flatMap((rank) => [rank.p5, rank.p95]),
    `Medians per rank: ${ranks.map((rank) => `${rank.rank}: ${seconds(rank.p50)}`).join(", ")}.`);
}

function openSamples(row) {
  if (!row?.samples.length) return;
  allSamples ??= parsed("sample-data");
  sampleSpecs ??= parsed("sample-specs");
  document.getElementById("samples-title").textContent = row.name;
  const select = dialog.querySelector("select");
  select.replaceChildren(...row.samples.map((_, index) => new Option(String(index + 1), index)));
  select.parentElement.hidden = row.samples.length < 2;
  select.onchange = () => showSample(allSamples[row.samples[select.value]]);
  dialog.showModal();
  showSample(allSamples[row.samples.at(-1)]);
  select.value = row.samples.length - 1;
}

dialog.querySelector(".close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
