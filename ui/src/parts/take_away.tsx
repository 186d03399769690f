// The buttons that take a chart's data along: CSV, JSON, and the request as a command.

import { useState } from "preact/hooks";
import { type Named, csvOf, jsonOf, save } from "./download";

export function TakeAway({ name, series, curl }: { name: string; series: () => Named[]; curl: () => string }) {
  const [command, setCommand] = useState("");
  const [isCopied, setCopied] = useState(false);
  const show = async () => {
    const text = curl();
    setCommand(text);
    setCopied(false);
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      // Without TLS browsers have no clipboard for pages: the text is there to be marked.
    }
  };
  return (
    <div class="take-away">
      <button type="button" onClick={() => save(`${name}.csv`, "text/csv", csvOf(series()))}>CSV</button>
      <button type="button" onClick={() => save(`${name}.json`, "application/json", jsonOf(series()))}>JSON</button>
      <button type="button" aria-expanded={command !== ""} onClick={() => (command ? setCommand("") : void show())}>curl</button>
      {command && (
        <div class="command">
          <pre tabIndex={0} aria-label="The request as a command">{command}</pre>
          <small role="status">{isCopied ? "Copied." : "Mark it and copy."}</small>
        </div>
      )}
    </div>
  );
}
