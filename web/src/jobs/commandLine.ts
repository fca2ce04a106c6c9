/** Command lines as a shell reads them. */

const PLAIN = /^[\w@%+=:,./-]+$/;

/** A word that a shell takes as it is. */
export function quoted(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

export function commandLine(words: readonly string[]): string {
  return words.map(quoted).join(" ");
}

/** The words of a command line as a POSIX shell splits them: quotes and backslashes, and nothing is expanded. Null
 *  where a quote is left open. */
export function wordsOf(line: string): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  for (let at = 0; at < line.length; at += 1) {
    const char = line.charAt(at);
    if (char === "'" || char === '"') {
      const [inside, end] = inQuotes(line, at);
      if (end < 0) return null;
      word = (word ?? "") + inside;
      at = end;
    } else if (char === "\\") {
      at += 1;
      if (at >= line.length) return null;
      // A backslash before the end of a line joins it with the next.
      if (line.charAt(at) !== "\n") word = (word ?? "") + line.charAt(at);
    } else if (/\s/.test(char)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? "") + char;
  }
  if (word !== null) words.push(word);
  return words;
}

/** What is between the quote at `start` and its end, and where that is; -1 where there is none. */
function inQuotes(line: string, start: number): [string, number] {
  const quote = line.charAt(start);
  let inside = "";
  for (let at = start + 1; at < line.length; at += 1) {
    const char = line.charAt(at);
    if (char === quote) return [inside, at];
    if (quote === '"' && char === "\\" && /["\\$`\n]/.test(line.charAt(at + 1))) {
      at += 1;
      if (line.charAt(at) !== "\n") inside += line.charAt(at);
    } else inside += char;
  }
  return [inside, -1];
}
