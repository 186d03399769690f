// The display name of a metric's resource.

import { useEffect, useState } from "preact/hooks";
import { lookUp, nameOf } from "../api/resources";
import type { Resource } from "../api/types";
import { linkTo } from "../state/address";

/** `null` while loading. */
function useOwner(id: string | null): Resource | null {
  const [resource, setResource] = useState<Resource | null>(null);
  useEffect(() => {
    setResource(null);
    if (!id) return;
    let isThere = true;
    lookUp(id).then((found) => isThere && setResource(found), () => undefined); // The id is shown instead.
    return () => void (isThere = false);
  }, [id]);
  return resource;
}

/** With a link. */
export function Owner({ id }: { id: string | null }) {
  const resource = useOwner(id);
  if (!id) return null;
  const type = resource?.type ?? "generic";
  return <a class="owner" href={linkTo(["resources", type, id])}>{resource ? nameOf(resource) : id.slice(0, 8)}</a>;
}

/** Without a link, for use inside another one. */
export function OwnerName({ id }: { id: string }) {
  const resource = useOwner(id);
  return <b class="owner">{resource ? nameOf(resource) : id.slice(0, 8)} · </b>;
}
