export function Resources() { return <p class="empty">resources</p>; }
