// Buttons that export a chart's data: CSV, JSON, Arrow, and the request as a curl command.

import { useState } from "preact/hooks";
import { type RequestLine, requestBlob } from "../http/client";
import { explain } from "../http/errors";
import { type Named, csvOf, curlOf, jsonOf, save } from "./download";
import { Problem } from "./problem";

const ARROW = "application/vnd.apache.arrow.stream";

interface ExportProps {
  name: string;
  series: () => Named[];
  request: () => RequestLine;
  /** Whether the server answers the request as Arrow, too. */
  hasArrow?: boolean;
}

/** CSV and JSON contain the shown data, Arrow and the command the server's response. */
export function ExportButtons({ name, series, request, hasArrow = true }: ExportProps) {
  const [problem, setProblem] = useState("");
  const [command, setCommand] = useState("");
  const [isCopied, setCopied] = useState(false);
  const show = async () => {
    const text = curlOf(request());
    setCommand(text);
    setCopied(false);
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      // Pages have no clipboard without TLS: the user copies the shown text.
    }
  };
  const saveArrow = async () => {
    setProblem("");
    try {
      const { method, path, options } = request();
      save(`${name}.arrows`, (await requestBlob(method, path, ARROW, options)).value);
    } catch (error) {
      setProblem(explain(error));
    }
  };
  return (
    <div class="take-away">
      <button type="button" onClick={() => save(`${name}.csv`, new Blob([csvOf(series())], { type: "text/csv" }))}>CSV</button>
      <button type="button" onClick={() => save(`${name}.json`, new Blob([jsonOf(series())], { type: "application/json" }))}>JSON</button>
      {hasArrow && <button type="button" onClick={() => void saveArrow()}>Arrow</button>}
      <button type="button" aria-expanded={command !== ""} onClick={() => (command ? setCommand("") : void show())}>curl</button>
      {problem && <Problem text={problem} />}
      {command && (
        <div class="command">
          <pre tabIndex={0} aria-label="The request as a command">{command}</pre>
          <small role="status">{isCopied ? "Copied." : "Mark it and copy."}</small>
        </div>
      )}
    </div>
  );
}
