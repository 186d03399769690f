// A banner while the server is unreachable; the page keeps its content.

import { useCell } from "../state/cell";
import { goneSince } from "../http/client";
import { formatTime } from "../series/format";

export function Gone() {
  const since = useCell(goneSince);
  return (
    <div class="gone" role="status" aria-live="assertive">
      {since !== null && <p>The server has not answered since {formatTime(since / 1000, false)}. What you see is what was there before; the page goes on as soon as it answers.</p>}
    </div>
  );
}
