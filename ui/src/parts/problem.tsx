// An error message in its context.

export function Problem({ text, onRetry }: { text: string; onRetry?: () => void }) {
  return (
    <div class="problem box" role="alert">
      <span>{text}</span>
      {onRetry && <button type="button" onClick={onRetry}>Try again</button>}
    </div>
  );
}
