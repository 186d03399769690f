// Parses the server's `/metrics`.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export function samplesOf(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!found || line.startsWith("#")) continue;
    const [, name = "", labels = "", value = ""] = found;
    samples.push({ name, labels: labelsOf(labels), value: Number(value) });
  }
  return samples;
}

function labelsOf(text: string): Record<string, string> {
  const pairs = [...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
  return Object.fromEntries(pairs.map(([, name, value]) => [name, (value ?? "").replace(/\\(.)/g, "$1")]));
}

/** The sum of all samples of the name, over all labels; `null` without samples. */
export function sumOf(samples: Sample[], name: string, isWanted: (sample: Sample) => boolean = () => true): number | null {
  const own = samples.filter((sample) => sample.name === name && isWanted(sample));
  return own.length ? own.reduce((sum, { value }) => sum + value, 0) : null;
}
