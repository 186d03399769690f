// A minimal Keystone for log-in and validation, on a free port, open to every origin.

import http from "node:http";

const PROJECT = { id: "b1d5a0f5f6a94f3fbb60a6ea3f5a0001", name: "demo", domain: { id: "default", name: "Default" } };
const USERS = { alice: "secret", gnudi: "service" };

export class Keystone {
  constructor() {
    this.tokens = new Map();
    this.issued = 0;
  }

  async start() {
    this.server = http.createServer((request, response) => void this.answer(request, response));
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    this.origin = `http://127.0.0.1:${this.server.address().port}`;
    this.uri = `${this.origin}/v3`;
    return this;
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  /** Ends the tokens that people have. */
  endTokens() {
    for (const found of this.tokens.values()) if (found.name === "alice") found.until = new Date(0);
  }

  /** The configuration of a gnudi that uses this Keystone, and asks it for each request. */
  config() {
    return `[api]\nauth_mode = keystone\n[keystone_authtoken]\nauth_type = password\nauth_url = ${this.uri}\nwww_authenticate_uri = ${this.uri}
username = gnudi\npassword = service\nuser_domain_name = Default\nproject_name = service\nproject_domain_name = Default
token_cache_time = 0\n`;
  }

  async answer(request, response) {
    response.setHeader("Access-Control-Allow-Origin", "*");
    response.setHeader("Access-Control-Allow-Headers", "Content-Type");
    response.setHeader("Access-Control-Expose-Headers", "X-Subject-Token");
    if (request.method === "OPTIONS") return response.writeHead(200).end();
    if (request.method === "GET") return this.validate(request.headers["x-subject-token"], response);
    let text = "";
    for await (const part of request) text += part;
    this.issue(JSON.parse(text).auth.identity.password.user, response);
  }

  issue({ name, password }, response) {
    if (USERS[name] !== password) {
      return response.writeHead(401, { "Content-Type": "application/json" }).end('{"error": {"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}}');
    }
    const isPerson = name === "alice";
    if (isPerson) this.issued += 1;
    const token = `token-${name}-${this.tokens.size}`;
    const until = new Date(Date.now() + 3_600_000);
    this.tokens.set(token, { name, until });
    response.writeHead(201, { "X-Subject-Token": token, "Content-Type": "application/json" }).end(this.document(name, until));
  }

  validate(token, response) {
    const found = this.tokens.get(token);
    if (!found || found.until < new Date()) return response.writeHead(404).end('{"error": {"code": 404, "message": "no token"}}');
    response.writeHead(200, { "Content-Type": "application/json" }).end(this.document(found.name, found.until));
  }

  document(name, until) {
    return JSON.stringify({
      token: {
        methods: ["password"], user: { id: `id-of-${name}`, name, domain: { id: "default", name: "Default" } }, project: PROJECT,
        roles: [{ id: "r1", name: name === "gnudi" ? "service" : "member" }, { id: "r2", name: "reader" }],
        issued_at: new Date().toISOString(), expires_at: until.toISOString(), catalog: [],
      },
    });
  }
}
