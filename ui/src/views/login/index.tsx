// The log-in dialog. It opens over the page when the server requires it; typed text is kept.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { explain } from "../../http/errors";
import { logInBasic, logInKeystone, logInToken, settings } from "../../http/session";

export function Login({ reason }: { reason: string }) {
  const { auth } = settings;
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    // A browser closes a dialog at the second Escape, even if the first was prevented.
    <dialog ref={dialog} class="login" aria-labelledby="login-title" onCancel={(event) => event.preventDefault()} onClose={() => dialog.current?.showModal()}>
      <h1 id="login-title"><img src={iconUrl()} alt="" width="28" height="28" /> gnudi</h1>
      {reason && <p class="reason" role="status">{reason} Log in to go on where you were.</p>}
      {auth.mode === "keystone" ? <Keystone uri={auth.uri} /> : auth.mode === "basic" ? <Basic /> : <Remote />}
    </dialog>
  );
}

const iconUrl = (): string => document.querySelector<HTMLLinkElement>('link[rel="icon"]')?.href ?? "";

/** Shows the error of an attempt, and keeps the input. */
function Form({ attempt, children, more }: { attempt: () => Promise<void>; children: ComponentChildren; more?: ComponentChildren }) {
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await attempt();
    } catch (failure) {
      setError(explain(failure));
      setBusy(false);
    }
  };
  return (
    <form onSubmit={submit}>
      {children}
      {error && <p class="problem" role="alert">{error}</p>}
      <button type="submit" class="main" disabled={isBusy}>Log in</button>
      {more}
    </form>
  );
}

interface FieldProps {
  label: string;
  value: string;
  onValue: (value: string) => void;
  type?: "text" | "password";
  autocomplete?: string;
  isOptional?: boolean;
  isFirst?: boolean;
}

function Field({ label, value, onValue, type = "text", autocomplete = "off", isOptional = false, isFirst = false }: FieldProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <input {...({ type } as object)} value={value} required={!isOptional} autocomplete={autocomplete} autofocus={isFirst} spellcheck={false} onInput={(event) => onValue(event.currentTarget.value)} />
    </label>
  );
}

function Basic() {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  return (
    <Form attempt={() => logInBasic(user, password)}>
      <Field label="User" value={user} onValue={setUser} autocomplete="username" isFirst />
      <Field label="Password" value={password} onValue={setPassword} type="password" autocomplete="current-password" isOptional />
    </Form>
  );
}

function Keystone({ uri: first }: { uri: string }) {
  const [uri, setUri] = useState(first);
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [project, setProject] = useState("");
  const [userDomain, setUserDomain] = useState("Default");
  const [projectDomain, setProjectDomain] = useState("Default");
  const [token, setToken] = useState("");
  const [hasToken, setHasToken] = useState(false);
  const attempt = () => (hasToken ? logInToken(token) : logInKeystone({ uri, user, password, userDomain, project, projectDomain }));
  const more = <button type="button" class="link" onClick={() => setHasToken(!hasToken)}>{hasToken ? "By user and password" : "By a token that I have"}</button>;
  return (
    <Form attempt={attempt} more={more}>
      {hasToken ? (
        <Field label="Token (openstack token issue -f value -c id)" value={token} onValue={setToken} type="password" isFirst />
      ) : (
        <>
          <Field label="Keystone" value={uri} onValue={setUri} />
          <Field label="User" value={user} onValue={setUser} autocomplete="username" isFirst />
          <Field label="Password" value={password} onValue={setPassword} type="password" autocomplete="current-password" />
          <Field label="Project" value={project} onValue={setProject} isOptional />
          <div class="pair">
            <Field label="User's domain" value={userDomain} onValue={setUserDomain} />
            <Field label="Project's domain" value={projectDomain} onValue={setProjectDomain} />
          </div>
        </>
      )}
    </Form>
  );
}

function Remote() {
  return (
    <>
      <p>The proxy in front of gnudi names the users, and has named none for you.</p>
      <button type="button" class="main" onClick={() => location.reload()}>Try again</button>
    </>
  );
}
