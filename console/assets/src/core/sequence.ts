// Keys one after the other: "g" then "j" goes to the jobs. Pure: it is told keys and times, and says what they mean.

/** How long the second key may take, in milliseconds. */
export const PATIENCE = 1_200;

export type Meaning = string | undefined;

/** Sequences knows what single keys and pairs of keys mean. */
export class Sequences {
  private first = "";
  private at = 0;

  /** meanings has keys such as "?" and "g j". */
  constructor(private readonly meanings: ReadonlyMap<string, string>) {}

  /** press is told a key and when, in milliseconds, and returns what it means, if anything. */
  press(key: string, at: number): Meaning {
    const pair = this.first !== "" && at - this.at <= PATIENCE ? `${this.first} ${key}` : "";
    this.first = "";
    if (pair !== "") {
      const meaning = this.meanings.get(pair);
      if (meaning !== undefined) return meaning;
    }
    for (const sequence of this.meanings.keys()) {
      if (sequence.startsWith(`${key} `)) {
        this.first = key;
        this.at = at;
        return undefined;
      }
    }
    return this.meanings.get(key);
  }
}
