// The resource that a metric belongs to, by the name that people know.

import { useEffect, useState } from "preact/hooks";
import { lookUp, nameOf } from "../api/resources";
import type { Resource } from "../api/types";
import { linkTo } from "../state/address";

/** `null` until it is known. */
function useOwner(id: string | null): Resource | null {
  const [resource, setResource] = useState<Resource | null>(null);
  useEffect(() => {
    setResource(null);
    if (!id) return;
    let isThere = true;
    void lookUp(id).then((found) => isThere && setResource(found));
    return () => void (isThere = false);
  }, [id]);
  return resource;
}

/** As a link. */
export function Owner({ id }: { id: string | null }) {
  const resource = useOwner(id);
  if (!id) return null;
  const type = resource?.type ?? "generic";
  return <a class="owner" href={linkTo(["resources", type, id])}>{resource ? nameOf(resource) : id.slice(0, 8)}</a>;
}

/** Beside what has a link already. */
export function OwnerName({ id }: { id: string }) {
  const resource = useOwner(id);
  return <b class="owner">{resource ? nameOf(resource) : id.slice(0, 8)} · </b>;
}
