export function Changes(_: { mark: unknown; text: string; settings: unknown }) { return null; }
