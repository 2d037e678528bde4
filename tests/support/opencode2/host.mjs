// A stand-in for OpenCode 2, as its public source has it (anomalyco/opencode, packages/core/src/tool/
// plugin/subagent.ts and packages/plugin/src/promise, November 2026); not the real one. It loads a
// plug-in as that does, and plays what it is told on standard input, a JSON object a line:
//
//   {"main": "ses_a", "input": {agent, prompt, description, sessionID?, background?}, "fail"?: text,
//    "reads"?: [path, ...], "says"?: text}                              a call of the tool `subagent`
//   {"main": "ses_a", "prompt": text}                                   what a person says
//   {"forget": "ses_x"}                                                 a session that is deleted
//
// Of each call it writes a line: what the tool was given, what it answered, which child it used.
import { createInterface } from "node:readline"
import { pathToFileURL } from "node:url"

const [, , plugin, directory] = process.argv
const sessions = new Map()
const hooks = { tool: {}, session: {} }
const waiting = []
let heard = null

const tell = (event) => { waiting.push(event); heard?.(); heard = null }
const register = (domain) => async (name, callback) => {
  (hooks[domain][name] ??= []).push(callback)
  return { dispose: async () => {} }
}
const fire = async (domain, name, event) => { for (const each of hooks[domain][name] ?? []) await each(event) }

const ctx = {
  app: { name: "opencode", version: "2.1.4", channel: "stand-in" },
  options: {},
  event: {
    async *subscribe() {
      for (;;) {
        while (waiting.length) yield waiting.shift()
        await new Promise((resolve) => { heard = resolve })
      }
    },
  },
  session: {
    hook: register("session"),
    get: async ({ sessionID }) => {
      const found = sessions.get(sessionID)
      if (!found) throw new Error(`Session not found: ${sessionID}`)
      return { ...found, location: { directory } }
    },
  },
  tool: { hook: register("tool") },
}

let number = 0
const open = (id, parentID) => { sessions.set(id, { id, ...(parentID ? { parentID } : {}) }); return id }

// The tool itself: what it refuses, whom it uses, and what it says.
const subagent = async (input, main, line, callID) => {
  let child = input.sessionID
  if (child && !sessions.has(child)) throw new Error(`Subagent session not found: ${child}`)
  if (child && sessions.get(child).parentID !== main) throw new Error(`Session ${child} is not a child of the current session`)
  child ??= open(`ses_child${++number}`, main)
  tell({ type: "session.tool.progress", data: { sessionID: main, callID, structured: { sessionID: child, status: "running" } } })
  await fire("session", "prompt", { sessionID: child, prompt: { text: input.prompt }, delivery: "queue" })
  for (const path of line.reads ?? []) {
    const read = { tool: "read", sessionID: child, id: `r${++number}`, input: { filePath: path }, status: "completed", result: { output: "" } }
    await fire("tool", "execute.before", read)
    await fire("tool", "execute.after", read)
  }
  if (line.fail) throw new Error(`Subagent failed (sessionID: ${child}): ${line.fail}`)
  const said = line.says ?? `did: ${input.prompt.slice(0, 40)}`
  if (input.background) {
    setTimeout(() => {
      tell({ type: "session.text.ended", data: { sessionID: child, text: said } })
      tell({ type: "session.execution.succeeded", data: { sessionID: child } })
    }, 100)
    return { output: { sessionID: child, status: "running", output: `(sessionID: ${child})` } }
  }
  return { output: { sessionID: child, status: "completed", output: said }, metadata: { sessionID: child, status: "completed" } }
}

const call = async (line) => {
  if (!sessions.has(line.main)) open(line.main)
  const id = `call_${++number}`
  const event = { tool: "subagent", sessionID: line.main, agent: "build", messageID: "msg_1", id, input: line.input }
  await fire("tool", "execute.before", event)
  let settled
  try {
    settled = { ...event, status: "completed", result: await subagent(event.input, line.main, line, id) }
  } catch (error) {
    settled = { ...event, status: "error", error: { message: error.message } }
  }
  await new Promise((resolve) => setTimeout(resolve, 50))
  await fire("tool", "execute.after", settled)
  return { input: event.input, status: settled.status, result: settled.result, error: settled.error }
}

const { default: loaded } = await import(pathToFileURL(plugin).href)
const cleanup = await loaded.setup(ctx)
process.stdout.write(JSON.stringify({ loaded: loaded.id }) + "\n")
for await (const text of createInterface({ input: process.stdin })) {
  const line = JSON.parse(text)
  if (line.forget) sessions.delete(line.forget)
  if (line.session) open(line.session, line.parent)
  if (line.prompt) {
    if (!sessions.has(line.main)) open(line.main)
    await fire("session", "prompt", { sessionID: line.main, prompt: { text: line.prompt }, delivery: "queue" })
  }
  const told = line.input ? await call(line).catch((error) => ({ thrown: error.message })) : {}
  if (line.input?.background) await new Promise((resolve) => setTimeout(resolve, 500))
  process.stdout.write(JSON.stringify(told) + "\n")
}
await cleanup()
process.exit(0)
