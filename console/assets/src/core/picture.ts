// A picture's main colours and mean luminance. Pure: it takes pixels, wherever they come from.

/** Colour is a main colour and the share of the pixels that are nearest to it. */
export interface Colour {
  red: number;
  green: number;
  blue: number;
  share: number;
}

export interface Picture {
  pixels: number; // that are not transparent
  luminance: number; // 0 black to 1 white, the mean of linear light
  colours: Colour[]; // the largest share first
}

const COLOURS = 6;
const ROUNDS = 10;

/** linear is the linear light of each of the 256 values of a channel (sRGB). */
export function linearTable(): Float64Array {
  return Float64Array.from({ length: 256 }, (_, n) => {
    const c = n / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
}

/** luminanceOf is the mean relative luminance of the pixels that are at least half opaque, and how many these are. */
export function luminanceOf(rgba: Uint8ClampedArray): { luminance: number; pixels: number } {
  const linear = linearTable();
  let sum = 0;
  let pixels = 0;
  for (let at = 0; at + 3 < rgba.length; at += 4) {
    if ((rgba[at + 3] as number) < 128) continue;
    pixels++;
    sum += 0.2126 * (linear[rgba[at] as number] as number) + 0.7152 * (linear[rgba[at + 1] as number] as number) + 0.0722 * (linear[rgba[at + 2] as number] as number);
  }
  return { luminance: pixels === 0 ? NaN : sum / pixels, pixels };
}

/** seeds are the first guesses: the fullest of 4,096 boxes of colour that are not close to one taken already. No chance is in it. */
function seeds(rgba: Uint8ClampedArray): number[][] {
  const counts = new Uint32Array(4096);
  for (let at = 0; at + 3 < rgba.length; at += 4) {
    if ((rgba[at + 3] as number) < 128) continue;
    const box = (((rgba[at] as number) >> 4) << 8) | (((rgba[at + 1] as number) >> 4) << 4) | ((rgba[at + 2] as number) >> 4);
    counts[box] = (counts[box] as number) + 1;
  }
  const order = Array.from(counts.keys())
    .filter((box) => (counts[box] as number) > 0)
    .sort((a, b) => (counts[b] as number) - (counts[a] as number) || a - b);
  const taken: number[][] = [];
  for (const least of [64, 32, 0]) {
    for (const box of order) {
      if (taken.length >= COLOURS) return taken;
      const colour = [((box >> 8) & 15) * 16 + 8, ((box >> 4) & 15) * 16 + 8, (box & 15) * 16 + 8];
      if (taken.every((one) => Math.hypot(...one.map((value, n) => value - (colour[n] as number))) > least)) taken.push(colour);
    }
  }
  return taken;
}

/** picture works both out: the colours by k-means, which looks at each pixel once a round. */
export function picture(rgba: Uint8ClampedArray): Picture {
  const { luminance, pixels } = luminanceOf(rgba);
  let centres = seeds(rgba);
  const k = centres.length;
  let counts = new Float64Array(k);
  for (let round = 0; round < ROUNDS; round++) {
    const flat = Float64Array.from(centres.flat());
    const sums = new Float64Array(k * 3);
    counts = new Float64Array(k);
    for (let at = 0; at + 3 < rgba.length; at += 4) {
      if ((rgba[at + 3] as number) < 128) continue;
      const red = rgba[at] as number;
      const green = rgba[at + 1] as number;
      const blue = rgba[at + 2] as number;
      let nearest = 0;
      let least = Infinity;
      for (let c = 0; c < k; c++) {
        const dr = red - (flat[3 * c] as number);
        const dg = green - (flat[3 * c + 1] as number);
        const db = blue - (flat[3 * c + 2] as number);
        const distance = dr * dr + dg * dg + db * db;
        if (distance < least) {
          least = distance;
          nearest = c;
        }
      }
      counts[nearest] = (counts[nearest] as number) + 1;
      sums[3 * nearest] = (sums[3 * nearest] as number) + red;
      sums[3 * nearest + 1] = (sums[3 * nearest + 1] as number) + green;
      sums[3 * nearest + 2] = (sums[3 * nearest + 2] as number) + blue;
    }
    centres = centres.map((old, c) => ((counts[c] as number) > 0 ? [0, 1, 2].map((n) => (sums[3 * c + n] as number) / (counts[c] as number)) : old));
  }
  const colours = centres
    .map((centre, c) => ({ red: Math.round(centre[0] as number), green: Math.round(centre[1] as number), blue: Math.round(centre[2] as number), share: pixels === 0 ? 0 : (counts[c] as number) / pixels }))
    .filter((colour) => colour.share > 0)
    .sort((a, b) => b.share - a.share);
  return { pixels, luminance, colours };
}
